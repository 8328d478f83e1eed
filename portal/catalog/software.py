"""Which software is in which environment, for lists: read anew only when a test has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.errors import StoreUnavailable
from portal.models.catalog import Verdict
from portal.store import Store


class Software:
    """The versions of software by fingerprint, as the last tests read them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of: Any = None  # the verdicts that the answer was made from
        self._found: dict[str, dict[str, str]] = {}

    async def versions(
        self, known: Mapping[str, Mapping[str, Verdict]] | None
    ) -> Mapping[str, Mapping[str, str]]:
        """By fingerprint, then by software. ``known``: what the catalog knows of tests now; as
        long as that is the same object, nothing is asked. Raises nothing."""
        if known is not None and known is not self._of:
            try:
                self._found = await self._store.tests.software()
                self._of = known
            except StoreUnavailable:
                pass  # the store says so itself
        return self._found
