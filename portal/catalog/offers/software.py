"""Which software is in which environment, for lists: read anew only when a test has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from portal.cache import SharedAnswer
from portal.models.catalog.catalog import Verdict
from portal.store import Store


class Software:
    """The versions of software by fingerprint, as the last tests read them. ``patience``: seconds
    that a caller waits for the database; what was known is told meanwhile."""

    def __init__(self, store: Store, patience: float | None = None) -> None:
        self._of: Any = None  # the verdicts that the answer belongs to
        self._found = SharedAnswer[Mapping[str, Mapping[str, str]]](
            store.tests.software, ttl=math.inf, retry=0.0, patience=patience, first={}
        )

    @property
    def known(self) -> Mapping[str, Mapping[str, str]]:
        """The versions as they were told last."""
        return self._found.last or {}

    async def versions(
        self, known: Mapping[str, Mapping[str, Verdict]] | None
    ) -> Mapping[str, Mapping[str, str]]:
        """By fingerprint, then by software. ``known``: what the catalog knows of tests now; as
        long as that is the same object, nothing is asked. Raises nothing."""
        if known is None:
            return self.known
        if known is not self._of:
            self._of = known
            self._found.invalidate()
        return await self._found.get()
