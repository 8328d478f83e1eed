"""Examples: a replica gets requests once it has answered the example of its version. One whose
program has answered and does so no more gets none, and is replaced."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection

from portal.errors import PortalError
from portal.store import Store

from ..gateway import Gateway
from ..models import EndpointReplica, EndpointVersion
from ..tables import EndpointReplicaTable, EndpointVersionTable
from .facts import Facts, Seen
from .failures import Failures

_EXAMPLES = 5  # of one replica that failed, after which it has
_AGAIN = 5.0  # seconds until an example is sent again
_SILENCE = 30.0  # seconds beyond the load time, in which a program may begin to answer again
_UNANSWERED = "Its replica did not answer the example."
_SILENT = "The program of its replica answered no more."


class Examples:
    """Trials of replicas, each a task. ``changed`` is called after each."""

    def __init__(
        self,
        store: Store,
        gateway: Gateway,
        facts: Facts,
        failures: Failures,
        changed: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._store, self._gateway, self._facts = store, gateway, facts
        self._failures, self._changed, self._log = failures, changed, log
        self._unanswered: dict[str, tuple[int, float]] = {}  # times of a replica, the last one
        self._silent: dict[str, float] = {}  # since when, by replica
        self.trying: dict[str, asyncio.Task[None]] = {}

    async def begin(self, seen: Seen, now: float) -> None:
        """Begin to try the replicas that answer and were not tried; give up those that fail."""
        for row in seen.rows:
            version = seen.versions.get(row.version)
            if row.ready_at is not None or row.draining_at is not None or version is None:
                self._silent.pop(row.id, None)
                continue
            failures, last = self._unanswered.get(row.id, (0, 0.0))
            if failures >= _EXAMPLES:
                await self._give_up(row, seen, version.problem or _UNANSWERED, now)
            elif row.answered_at is None and row.loaded is not None:
                if now >= self._silent.setdefault(row.id, now) + seen.load + _SILENCE:
                    await self._give_up(row, seen, _SILENT, now)
            elif (
                row.answered_at is not None
                and row.id not in self.trying
                and now >= last + _AGAIN * bool(failures)
            ):
                address = self._facts.address(row, seen.records.get(row.id))
                if address:
                    self.trying[row.id] = asyncio.create_task(self._try(row, version, address))

    async def _give_up(self, row: EndpointReplica, seen: Seen, words: str, now: float) -> None:
        """Have a replica drained, which is replaced at the next look."""
        table = self._store.table(EndpointReplicaTable)
        await table.change(row.user, row.id, draining_at=now)
        await self._failures.add_failure(row, seen.versions, words, now)

    def forget_but(self, ids: Collection[str]) -> None:
        """Forget the replicas that are not among these."""
        for memory in (self._unanswered, self._silent):
            for id_ in memory.keys() - set(ids):
                del memory[id_]

    async def _try(self, row: EndpointReplica, version: EndpointVersion, address: str) -> None:
        """Send the example to a replica, and write down whether it answered."""
        try:
            problem = await self._gateway.try_example(
                row.id, address, row.certificate, version.example, version.health
            )
            now = time.time()
            if problem:
                failures = self._unanswered.get(row.id, (0, 0.0))[0] + 1
                self._unanswered[row.id] = (failures, now)
                versions = self._store.table(EndpointVersionTable)
                await versions.change(version.endpoint, version.number, problem=problem)
            else:
                self._unanswered.pop(row.id, None)
                table = self._store.table(EndpointReplicaTable)
                # Only what was tried: it may have begun anew meanwhile.
                await table.set_ready(row, now)
                if version.problem and not version.failures:
                    versions = self._store.table(EndpointVersionTable)
                    await versions.change(version.endpoint, version.number, problem="")
        except PortalError as error:
            self._log.warning("Replica %s of %s cannot be tried: %s", row.id, row.endpoint, error)
        finally:
            self.trying.pop(row.id, None)
            self._changed()
