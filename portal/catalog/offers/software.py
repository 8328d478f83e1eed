"""Software versions of environments, for lists: read again only after a test has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from portal.cache import SharedAnswer
from portal.models.catalog.catalog import Verdict
from portal.store import Store


class Software:
    """Cache of software versions by fingerprint, as the last tests read them. ``patience``:
    seconds that a caller waits for the database; then it gets the last known versions."""

    def __init__(self, store: Store, patience: float | None = None) -> None:
        self._of: Any = None  # the verdicts that the answer belongs to
        self._found = SharedAnswer[Mapping[str, Mapping[str, str]]](
            store.tests.software, ttl=math.inf, retry=0.0, patience=patience, first={}
        )

    @property
    def known(self) -> Mapping[str, Mapping[str, str]]:
        """Versions as last read."""
        return self._found.last or {}

    async def versions(
        self, known: Mapping[str, Mapping[str, Verdict]] | None
    ) -> Mapping[str, Mapping[str, str]]:
        """Return versions by fingerprint, then by software. ``known``: the catalog's current
        verdicts; while that is the same object, the database is not asked. Raises nothing."""
        if known is None:
            return self.known
        if known is not self._of:
            self._of = known
            self._found.invalidate()
        return await self._found.get()
