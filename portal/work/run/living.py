"""Runs that live, followed through Slurm: what its tasks say that the points themselves do not."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from portal.errors import NotFound, PortalError
from portal.models.cluster.cluster import ClusterSnapshot, Job
from portal.models.session.point_numbers import expanded
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.session import SessionRecord
from portal.models.session.stop_reason import StopCode, StopReason
from portal.slurm import Cluster
from portal.spaces.job_space import JobSpace
from portal.spaces.registry import space_type_of
from portal.store import Store
from portal.work.run.tables.points import PointKeys, RunPointTable
from portal.work.run.tables.runs import RunKey, RunTable

from .endings import ended_point, without_record
from .launches.chains import never_started
from .tasks import Tasks, end_of_held, is_special, point_news, tasks_by_array, waiting_words

_GHOST = 30.0  # seconds after its last report in which a task ends by itself
_HELD = 900.0  # the same where the kernels of failed points are kept
_FORGETS = 240.0  # seconds after which slurmctld may forget ended tasks (slurm.conf(5), MinJobAge)
_STOPPED = "The point was stopped"  # as a point says that got SIGTERM (runs/point.py)
_AGAIN = "Slurm has put the point back into its queue."
_LOOKS = 2  # at a task until its end is taken without accounting, which names who cancelled it
_PAUSE = 15.0  # seconds between two queries about the tasks of one run
_SOON = 4.0  # the same while it is open what became of some
FINISHED = StopReason(code=StopCode.FINISHED, words="All points of the run have ended.")


class ServerStops(Protocol):
    """Part of the Hub's API that this needs."""

    async def stop_server(self, user: str, server: str, *, reason: StopReason) -> None:
        """Stop a server. Raises NotFound for one that does not run, HubUnavailable."""


class Control(Protocol):
    """Part of the control of Slurm that this needs."""

    async def cancel(self, job_id: str, user: str | None = None) -> None:
        """Cancel a job. Raises Conflict if it has ended."""

    async def start_without_waiting(self, job_id: str) -> None:
        """Let a job start that waits for others."""


class LivingRuns:
    """Runs that have not ended. ``words``: by run and number of a point, what it waits for."""

    def __init__(
        self, store: Store, cluster: Cluster, hub: ServerStops, control: Control, log: Any
    ) -> None:
        self._store, self._cluster, self._hub = store, cluster, hub
        self._control, self._log = control, log
        self._accounts = False  # Slurm's accounting has answered with a task once
        self._snapshot: ClusterSnapshot | None = None
        self._arrays: dict[str, dict[int, Job]] = {}
        self._looks: Counter[tuple[RunKey, int]] = Counter()
        self._asked: dict[RunKey, float] = {}  # in time.monotonic()
        self.words: dict[RunKey, Mapping[int, str]] = {}

    def see(self, snapshot: ClusterSnapshot | None) -> None:
        """Take the newest view of the cluster."""
        if snapshot is not None and snapshot is not self._snapshot:
            self._arrays = tasks_by_array(snapshot.jobs.values())
        self._snapshot = snapshot

    def forget(self, key: RunKey) -> None:
        """Forget a run that has ended."""
        self.words.pop(key, None)
        self._asked.pop(key, None)
        for look in [look for look in self._looks if look[0] == key]:
            del self._looks[look]

    async def follow(self, run: Run, record: SessionRecord) -> float | None:
        """Store what Slurm says of the run's points. Return when the run has ended (Unix seconds)
        if Slurm would go on with it although all points have reported their ends; else None. Raises
        StoreUnavailable."""
        snapshot, tasks = self._snapshot, self._arrays.get(record.job_id, {})
        if snapshot is None or snapshot.error or not tasks:
            return None
        key, taken_at = (run.user, run.id), snapshot.taken_at
        keys = await self._store.table(RunPointTable).keys(*key, values=False)
        numbers = expanded(run.only) if run.only else range(run.points)
        if all(task.state.ended for task in tasks.values()) and never_started(
            run, record, [point.state for point in keys]
        ):
            return None  # the run before it says why, once the run has ended
        news = point_news(tasks, keys, numbers, taken_at)
        if news.again:
            await self._store.table(RunPointTable).wait_again(key, news.again, _AGAIN)
            return None
        patience = _HELD if run.keep_failed else _GHOST
        at = end_of_held(tasks, keys, run.points, time.time() - patience)
        if at is not None:
            return at if await self._end_tasks(run, record, keys) else None
        detailed = await self._in_detail(key, record, tasks, news.absent)
        gone: list[int] = []
        if detailed is not None:
            troubled = [node for node in snapshot.nodes.values() if node.drained or node.down]
            type_ = space_type_of(record.server, record.options) or JobSpace
            way_out = type_(name=record.space).way_out
            self.words[key] = {
                number: f"{words} {way_out(task.reason)}".strip()
                for number, task in detailed.items()
                if (words := waiting_words(task, troubled))
            }
            gone = [number for number in news.absent if number not in detailed]
        if run.begun_at < time.time() - _FORGETS:
            gone = [number for number in gone if self._accounts]
        cancelled = [n for n in news.cancelled if self._looks[key, n] < 3 * _LOOKS]
        if news.ended or gone or cancelled:
            await self._say(run, record, tasks, news.ended, gone, cancelled)
        return None

    async def _in_detail(
        self, key: RunKey, record: SessionRecord, tasks: Tasks, absent: tuple[int, ...]
    ) -> Tasks | None:
        """Return the tasks each by itself; None if that was asked a moment ago. A snapshot does not
        say enough of them: squeue joins those that wait in one line, and cuts a long one."""
        if not absent and not any(is_special(task) for task in tasks.values()):
            return tasks
        now, pause = time.monotonic(), _SOON if absent else _PAUSE
        if now - self._asked.get(key, float("-inf")) < pause:
            return None
        self._asked[key] = now
        try:
            return await self._cluster.array_tasks(record.job_id)
        except PortalError as error:
            self._log.debug("The tasks of job %s: %s", record.job_id, error)
            return None

    async def _say(
        self,
        run: Run,
        record: SessionRecord,
        tasks: Tasks,
        ended: tuple[int, ...],
        gone: list[int],
        cancelled: list[int],
    ) -> None:
        """Store the ends of points: of tasks that have ended without a report, of those that Slurm
        has no more, of which accounting never heard, and of those that do not know who has
        ``cancelled`` them."""
        key = (run.user, run.id)
        try:
            accounted = await self._cluster.ended_tasks(record.job_id)
        except PortalError as error:
            self._log.info("How the points of job %s ended is unknown: %s", record.job_id, error)
            return
        self._accounts = self._accounts or bool(accounted)
        ends: dict[int, Job] = {}
        for number in (*ended, *gone):
            self._looks[key, number] += 1
            if number in accounted:
                ends[number] = accounted[number]
            elif self._looks[key, number] >= _LOOKS:
                ends[number] = tasks[number] if number in ended else without_record(record.job_id)
        points = await self._store.table(RunPointTable).of_run(*key, [*ends, *cancelled])
        now = time.time()
        for number in cancelled:
            self._looks[key, number] += 1
            if number in accounted and points[number].message == _STOPPED:
                message = ended_point(points[number], accounted[number], now).message
                await self._store.table(RunPointTable).explain(key, number, message)
        done = []
        for number, task in ends.items():
            point = points.get(number) or RunPoint(number=number, attempt=run.attempt)
            done.append((key, ended_point(point, task, now)))
        await self._store.table(RunPointTable).save(done)

    async def _end_tasks(self, run: Run, record: SessionRecord, keys: list[PointKeys]) -> bool:
        """End what Slurm holds of a run whose points have all ended; return False if the Hub does
        not answer. Slurm would not start the runs after it, since tasks of it are cancelled."""
        drained = sorted(self._drained())
        self._log.warning(
            "All points of run %s of %s have ended, and Slurm still holds tasks of job %s: they "
            "are cancelled.%s",
            run.id, run.user, record.job_id,
            f" Nodes that Slurm has drained since: {', '.join(drained)}." if drained else "",
        )  # fmt: skip
        if all(key.state is PointState.SUCCEEDED for key in keys):
            for other in await self._store.table(RunTable).living():
                if (other.user, other.after) == (run.user, run.id) and other.job_id:
                    await self._release(other)
        try:
            await self._hub.stop_server(run.user, run.server, reason=FINISHED)
        except NotFound:
            with contextlib.suppress(PortalError):
                await self._control.cancel(record.job_id, record.account or record.user)
        except PortalError as error:
            self._log.info("Run %s is ended later: %s", run.id, error)
            return False
        return True

    async def _release(self, run: Run) -> None:
        try:
            await self._control.start_without_waiting(run.job_id)
        except PortalError as error:
            self._log.warning("Run %s of %s may not start: %s", run.id, run.user, error)

    def _drained(self) -> list[str]:
        nodes = self._snapshot.nodes.values() if self._snapshot else ()
        return [f"{node.name} ({node.reason})" for node in nodes if node.duplicate_job]
