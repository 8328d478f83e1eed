"""Loop that keeps the view fresh, and its interface for handlers. One per process."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any

from traitlets import Float, Instance, default
from traitlets.config import LoggingConfigurable

from ..cache import SharedAnswer
from ..errors import PortalError, SlurmUnavailable
from ..models import scope
from ..models.cluster.cluster import ClusterSnapshot
from ..models.cluster.dashboard import Changes, GpuItem, JobItem
from ..models.cluster.job_use import JobUse
from ..models.person import Person
from ..periodic import Periodic
from ..sessions.meter import UsageMeter
from ..setting import setting
from ..slurm import Cluster
from ..store import Store
from ..telemetry import Telemetry
from .builder import Builder, Items
from .changes import Ring, head, step
from .history import History, sample
from .job_use import JobUses
from .pauses import Pauses
from .sessions import LivingSessions
from .streams import Broadcaster, EventStream
from .view import ClusterView, Placed, mine

_RING = 60  # steps that a returning viewer can catch up with: five minutes
_LAST_WORDS = 5.0  # seconds that the end waits for the database


class Dashboard(LoggingConfigurable):
    """View of the cluster, requested from Slurm once for all viewers."""

    cluster = Instance(Cluster, help="The watcher.")
    telemetry = Instance(Telemetry, help="Readings of the GPUs.")
    store = Instance(Store, allow_none=True, help="The database; None: nothing is stored.")

    refresh_interval = setting(
        Float(5.0, min=1.0),
        """Seconds between queries of the jobs. Each query costs Slurm two requests regardless of
        the number of viewers, and two more for the nodes if jobs have started or ended, or after
        20 seconds; Cluster.rpcs_per_second must allow them.""",
        "c.Dashboard.refresh_interval = 10",
    )

    max_streams = 1000  # live pages of all users; further ones reload at intervals instead

    max_streams_each = 8  # live pages of one user

    heartbeat = Float(15.0)  # seconds without an event until a comment keeps the connection alive

    view: ClusterView | None = None
    error: str = ""  # why there is no view, or why it is old
    refresh_seconds: float | None = None  # duration of the last refresh

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = secrets.token_hex(6)
        self._builder = Builder()
        self._ring = Ring(_RING)
        self._broadcaster = Broadcaster()
        self._refreshes = SharedAnswer[None](ttl=0.0, keep=False)
        self._urgent = False  # somebody waits for the next refresh, perhaps after a change
        self._incomplete = False  # a step was lost: the next one cannot be sent as a step
        self._sessions = LivingSessions(self.store, self.log)
        self.job_uses = JobUses()
        self._history = self._meter = None
        if self.store is not None:
            self._history = History(self.store, self.log)
            self._meter = UsageMeter(self.store, self.log, self.cluster.ended_since)

    @default("telemetry")
    def _default_telemetry(self) -> Telemetry:
        return Telemetry(parent=self)

    async def run(self) -> None:
        """Refresh until cancelled. No error of a refresh ends the loop."""
        pauses, began = Pauses(), 0.0

        async def refresh() -> None:
            nonlocal began
            began = time.monotonic()
            await self._refreshed(began)

        def pause(_: object) -> float:
            pauses.tidy()
            return max(0.1, began + self.refresh_interval - time.monotonic())

        failed = "The dashboard could not be refreshed"
        try:
            with pauses.shortened():
                await Periodic("The dashboard", refresh, pause, self.log, failed=failed).run()
        finally:
            await self._close()

    async def _close(self) -> None:
        self._broadcaster.close()
        if self._history is not None and self._meter is not None:
            try:
                async with asyncio.timeout(_LAST_WORDS):
                    await self._meter.close(time.time())
                    await self._history.close(self.job_uses.running())
            except TimeoutError:
                self.log.warning("The last usage is recorded at the next start.")

    async def refreshed(self, newer: bool = True) -> None:
        """Wait until the view is as new as this call; with ``newer=False``, until there is one.

        Callers at the same time share one refresh. Never raises for Slurm, the database or
        telemetry: ``view.error`` says what failed.
        """
        if newer or self.view is None:
            self._urgent = True
            await self._refreshed(time.monotonic())

    async def _refreshed(self, moment: float) -> None:
        await self._refreshes.get(self._refresh_once, newer_than=moment)

    async def _refresh_once(self) -> None:
        began, urgent, self._urgent = time.monotonic(), self._urgent, False
        await self._refresh(began, urgent)
        self.refresh_seconds = time.monotonic() - began

    async def _refresh(self, began: float, urgent: bool) -> None:
        # Concurrent with the request to Slurm; for telemetry, the last nodes and jobs will do.
        beside = [asyncio.create_task(self._sessions.refresh())]
        if self.view is not None:
            beside.append(asyncio.create_task(self.telemetry.refresh(self.view.snapshot)))
        try:
            snapshot = await self.cluster.snapshot(
                began, jobs_only=False, gpu_indexes=True, urgent=urgent
            )
        except PortalError as error:
            self.error = error.message
            return
        finally:
            await asyncio.gather(*beside)
        if self.view is None:
            await self.telemetry.refresh(snapshot)
        self.error = snapshot.error
        whole, self._incomplete = self._incomplete, True
        items = await asyncio.to_thread(self._build, snapshot)
        view = self._view(snapshot, items)
        newest = await asyncio.to_thread(step, view, items, whole)
        self.view = view
        self._ring.add_step(newest)
        self._broadcaster.send(newest, view, items)
        self._incomplete = False
        await self._remember(view)

    def _build(self, snapshot: ClusterSnapshot) -> Items:
        readings = self.telemetry.readings(snapshot)
        return self._builder.build(snapshot, self._sessions.records, readings, self.telemetry.busy)

    async def _remember(self, view: ClusterView) -> None:
        if self._history is None or self._meter is None:
            return
        now, busy = time.time(), self.telemetry.busy
        readings = await asyncio.to_thread(self.telemetry.accountable, view.snapshot)
        if self._history.due(view, now):
            seen = view, readings, busy, now, self._history.seen_at
            new = await asyncio.to_thread(sample, *seen)
            uses = await asyncio.to_thread(self._take_uses, view, now)
            self._history.write_sample(new, view.taken_at, uses)
        await self._meter.see(view.snapshot, readings, busy, view.sessions, now)

    def _take_uses(self, view: ClusterView, now: float) -> list[JobUse]:
        readings, memory = self.telemetry.readings(view.snapshot), self.telemetry.memory()
        return self.job_uses.take(view, readings, memory, now)

    def _view(self, snapshot: ClusterSnapshot, items: Items) -> ClusterView:
        telemetry = self.telemetry
        return ClusterView(
            stream=self.stream,
            version=self.view.version + 1 if self.view else 1,
            taken_at=snapshot.taken_at,
            error=snapshot.error,
            summary=items.summary,
            nodes=items.nodes,
            gpus=items.gpus,
            jobs=Placed(items.jobs, items.positions),
            snapshot=snapshot,
            sessions=items.sessions,
            unnamed_gpus=items.unnamed_gpus,
            unnamed_jobs=Placed(items.unnamed_jobs, items.positions),
            owned=items.owned,
            simulated=telemetry.simulated,
            telemetry_error=telemetry.error,
            telemetry_at=telemetry.taken_at,
        )

    async def board(self, person: Person, compressed: bool = False) -> bytes:
        """Return the JSON of the Board for this person, made in a thread if not there yet.

        The person's own items are not marked in it: ``own`` has them. Raises Unavailable before
        the first answer of Slurm.
        """
        view, named = self._seen(), person.may(scope.JOBS_READ)
        make = view.board_gzip if compressed else view.board
        if view.has_board(named, compressed):
            return make(named)
        return await asyncio.to_thread(make, named)

    def _seen(self) -> ClusterView:
        if self.view is None:
            raise SlurmUnavailable(self.error or "Slurm has not answered yet.")
        return self.view

    def jobs_for(self, person: Person) -> Sequence[JobItem]:
        """Return all jobs that wait or run, without the names that this person may not see."""
        if self.view is None:
            return ()
        return self.view.jobs_of(person.name, person.may(scope.JOBS_READ))

    def job_for(self, person: Person, job_id: str) -> JobItem | None:
        """Return a job as this person may see it; None if there is none that waits or runs."""
        if self.view is None or job_id not in self.view.jobs:
            return None
        item = self.view.jobs[job_id]
        if item.user == person.name:
            return mine(item)
        return item if person.may(scope.JOBS_READ) else self.view.unnamed_jobs[job_id]

    def gpus_for(self, person: Person) -> Sequence[GpuItem]:
        """Return all GPUs, without the names that this person may not see."""
        if self.view is None:
            return ()
        return self.view.gpus_of(person.name, person.may(scope.JOBS_READ))

    def own(self, person: Person) -> Changes | None:
        """Return this person's own items, as changes to the board; None without a view."""
        view = self.view
        if view is None:
            return None
        gpus, jobs = view.own_gpus(person.name), view.own_jobs(person.name)
        return head(view, gpus=gpus, jobs=jobs)

    def events(self, person: Person, last_event_id: str | None) -> EventStream:
        """Open this person's event stream: SSE frames, an AsyncIterator[bytes] with ``close()``.

        ``last_event_id`` ("{stream}-{version}") is the client's version: the steps since then come
        first. Without one, or if they are not known any more, the first event is ``reset``. Raises
        Unavailable or TooManyRequests if there are too many streams.
        """
        self._broadcaster.admit(person.name, self.max_streams, self.max_streams_each)
        stream = EventStream(person.name, person.may(scope.JOBS_READ), self.heartbeat)
        steps = None
        if last_event_id and (match := re.fullmatch(r"([0-9a-f]+)-(\d{1,15})", last_event_id)):
            steps = self._ring.since(match[1], int(match[2]))
        stream.begin(self.view, steps)
        self._broadcaster.add_stream(stream)
        return stream

    def changes_since(self, person: Person, stream: str, version: int) -> list[Changes] | None:
        """Return the steps after this version, for a client that polls; None: get the board anew.

        The person's own items have no names in it, as on the board: ``own`` has them.
        """
        steps, named = self._ring.since(stream, version), person.may(scope.JOBS_READ)
        return None if steps is None else [missed.changes(named) for missed in steps]

    @property
    def streams(self) -> int:
        """Number of open event streams."""
        return len(self._broadcaster)
