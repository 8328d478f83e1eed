"""Reconciler: it launches and stops replicas until as many run as should.

What should be is in the database, and so is what runs: the Hub's records of sessions. Nothing is
remembered but the times of failures, so a restart of the service, or of the Hub, changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Protocol

from portal.errors import Conflict, NotFound, PortalError, TooManyRequests, Unavailable
from portal.launch.kinds import stored_kind
from portal.models.session.replica_set import MOST_REPLICAS, ReplicaSet
from portal.models.session.session import SessionRecord
from portal.models.session.stop_reason import StopCode, StopReason
from portal.periodic import Periodic
from portal.store import Store
from portal.work.replicas.kind import ReplicaKind
from portal.work.replicas.tables import ReplicaSetTable

_EVERY = 5.0  # seconds
_AT_ONCE = 8  # launches and stops
_SHORT = 60.0  # seconds: a replica that ended within them counts as failed
_PAUSES = (5.0, 600.0)  # seconds after the first failure in a row, and at most
_SURPLUS = StopReason(code=StopCode.SURPLUS, words="Its replica set has fewer replicas now.")


class Hub(Protocol):
    """Part of the Hub's API that this needs."""

    async def begin_server(self, user: str, server: str, options: Any) -> None:
        """Start a server; return once Slurm has its job."""

    async def stop_server(self, user: str, server: str, *, reason: StopReason) -> None:
        """Ask the Hub to stop a server."""


class Reconciler:
    """Loop of the service for all replica sets. An event ``changed`` makes it look at once."""

    def __init__(self, store: Store, hub: Hub, log: logging.Logger) -> None:
        self._store, self._hub, self._log = store, hub, log
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}  # number, time of the last
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Reconcile all sets until cancelled."""
        await Periodic(
            "The reconciler of replica sets",
            lambda: self.reconcile(time.time()),
            _EVERY,
            self._log,
            wake=self.changed,
        ).run()

    async def reconcile(self, now: float) -> None:
        """Launch what is missing at ``now`` (Unix seconds), and stop what is too much. Raises
        StoreUnavailable."""
        sets = await self._store.table(ReplicaSetTable).every()
        if not sets:
            return
        living: dict[tuple[str, str], SessionRecord] = {
            (record.user, record.server): record for record in await self._store.sessions.living()
        }
        names = {(each.user, server) for each in sets for server in servers_of(each)}
        self._failures = {key: value for key, value in self._failures.items() if key in names}
        results = await asyncio.gather(
            *(self._reconcile(each, living, now) for each in sets), return_exceptions=True
        )
        for each, result in zip(sets, results, strict=True):
            if isinstance(result, PortalError):
                raise result
            if isinstance(result, Exception):  # one set must not stop those of others
                self._log.error("Replica set %s of %s", each.id, each.user, exc_info=result)

    async def _reconcile(
        self, wanted: ReplicaSet, living: dict[tuple[str, str], SessionRecord], now: float
    ) -> None:
        servers = servers_of(wanted)
        if not servers and wanted.replicas:
            words = f"This site no longer has '{wanted.work}'."
            await self._store.table(ReplicaSetTable).set_problem(wanted, words)
            return
        running = [server for server in servers if (wanted.user, server) in living]
        missing = [server for server in servers[: wanted.replicas] if server not in running]
        surplus = [server for server in running if server in servers[wanted.replicas :]]
        stopped = (self._stop(wanted, server) for server in surplus)
        launched = (self._launch(wanted, servers.index(server), now) for server in missing)
        problems = await asyncio.gather(*stopped, *launched)
        problem = next(filter(None, problems), None)
        if problem is None and (missing or wanted.replicas == 0):
            problem = ""
        if problem is not None and problem != wanted.problem:
            await self._store.table(ReplicaSetTable).set_problem(wanted, problem)
        if not wanted.replicas and not running:
            await self._store.table(ReplicaSetTable).remove(wanted.user, wanted.id)

    async def _launch(self, wanted: ReplicaSet, number: int, now: float) -> str | None:
        """Launch a replica; return why it could not be, None while it waits after a failure."""
        server = servers_of(wanted)[number]
        failures, last = await self._failed(wanted.user, server, now)
        if failures and now < last + pause(failures):
            return wanted.problem or None
        kind = stored_kind(wanted.work)
        own = {**wanted.options.get(kind.option, {}), "id": wanted.id, "number": number}
        try:
            async with self._limit:
                options = {**wanted.options, kind.option: own}
                await self._hub.begin_server(wanted.user, server, options)
        except Conflict:  # it runs, or stops
            return ""
        except (Unavailable, TooManyRequests) as error:  # nothing is known of it
            return error.message
        except PortalError as error:
            self._failures[wanted.user, server] = (failures + 1, now)
            return error.message
        return ""

    async def _failed(self, user: str, server: str, now: float) -> tuple[int, float]:
        """Return how often a replica failed in a row, and when it did last: it was refused, or its
        last session has ended soon."""
        failures, last = self._failures.get((user, server), (0, 0.0))
        records, _ = await self._store.sessions.find(user=user, server=server, limit=1)
        ended = records[0].ended_at if records else None
        if ended is None or ended <= last:
            return failures, last
        lasted = ended - (records[0].started_at or ended)
        known = (failures + 1, ended) if lasted < _SHORT else (0, ended)
        self._failures[user, server] = known
        return known

    async def _stop(self, wanted: ReplicaSet, server: str) -> str | None:
        try:
            async with self._limit:
                await self._hub.stop_server(wanted.user, server, reason=_SURPLUS)
        except (NotFound, Conflict):  # it has ended, or ends
            return None
        except PortalError as error:
            return error.message
        return None


def servers_of(wanted: ReplicaSet) -> Sequence[str]:
    """Return the names of the servers that a set can have, by number."""
    kind = stored_kind(wanted.work)
    if not issubclass(kind, ReplicaKind):
        return ()
    return [kind.replica_server(wanted.id, number) for number in range(MOST_REPLICAS)]


def pause(failures: int) -> float:
    """Return the seconds before the next launch after this many failures in a row."""
    first, most = _PAUSES
    return float(min(most, first * 2 ** min(failures - 1, 10)))
