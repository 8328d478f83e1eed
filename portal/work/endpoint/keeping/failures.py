"""Failures of versions: replicas in a row that did not answer, until none is launched."""

from __future__ import annotations

from collections.abc import Mapping

from portal.store import Store
from portal.work.replicas.reconciler import pause

from ..models import EndpointReplica, EndpointVersion
from ..tables import EndpointVersionTable

TRIES = 3  # replicas of a version in a row that failed, after which none is launched
SOUND = 600.0  # seconds: a replica that has answered for so long has not failed


class Failures:
    """Failures of all versions. The times of the last ones are lost with the service."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[tuple[str, int], float] = {}

    async def add_failure(
        self,
        row: EndpointReplica,
        versions: dict[int, EndpointVersion],
        words: str,
        now: float,
    ) -> None:
        """Count a failure of the replica's version, which ``words`` explain."""
        version = versions.get(row.version)
        if version is not None:
            self._last[row.endpoint, row.version] = now
            told = {"failures": version.failures + 1, "problem": words}
            versions[row.version] = version.model_copy(update=told)
            table = self._store.table(EndpointVersionTable)
            await table.change(row.endpoint, row.version, **told)

    async def forgive(
        self, row: EndpointReplica, versions: Mapping[int, EndpointVersion], now: float
    ) -> None:
        """Forget the failures of a version whose replica has answered for long enough."""
        version = versions.get(row.version)
        sound = row.ready_at is not None and now - row.ready_at >= SOUND
        if sound and version is not None and version.failures:
            await self._store.table(EndpointVersionTable).change(
                row.endpoint, row.version, failures=0, problem=""
            )

    def next_launch(self, version: EndpointVersion) -> float:
        """Return when the version may be launched again (Unix seconds)."""
        last = self._last.get((version.endpoint, version.number), 0.0)
        return last + (pause(version.failures) if version.failures else 0.0)


def given_up(version: EndpointVersion) -> str:
    """Return why none of a version is launched, "" while it may be."""
    if version.failures < TRIES:
        return ""
    words = f"Version {version.number} was given up: {TRIES} replicas in a row failed."
    return f"{words} The last one: {version.problem}" if version.problem else words
