"""Collection of results: runs that have ended are read, and repeated with new versions of their
environments; mail tells what has become worse."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from portal.errors import InvalidRequest, NotAllowed, PortalError, StoreUnavailable, Unavailable
from portal.handlers.sessions.starters import FOLDER
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.cluster.cluster import Job
from portal.models.session.run import PointState, Run
from portal.notices.post import Mail, MailQueue
from portal.notices.words import one_line
from portal.paths import data_path
from portal.periodic import Periodic
from portal.slurm import Cluster
from portal.store import Store
from portal.work.run.tables.logged import RunLoggedTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

from .results import FALL, SCRIPTS, BenchmarkResult, digests, falls, logged_results, placed
from .tables import BenchmarkResultTable, BenchmarkRun, BenchmarkRunTable

_EVERY = 10.0  # seconds
_LOOKS = 12  # at a run that has ended, until accounting has its jobs
_MOST_FALLS = 20  # sentences of a mail
_REPETITIONS = uuid.UUID(
    "7c1f0f6e-6a0c-4a5e-9d8e-3f2b1c0a9e41"
)  # namespace of their ids (RFC 9562)


class Repetitions(Protocol):
    """Part of the runs that this needs."""

    async def start(self, user: str, original: Run, *, version: int, digest: str, id_: str) -> Run:
        """Start a run that repeats ``original`` and gets this id."""


class Logins(Protocol):
    """Part of the Hub's API that this needs."""

    async def may_log_in(self, user: str) -> bool:
        """Return False if this user can no longer log in. Raises HubUnavailable."""


class BenchmarkCollector:
    """Task of the service. ``simulated`` returns True if the site's GPUs are; ``changed`` is set
    when a run was added."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        hub: Logins,
        repetitions: Callable[[], Repetitions],
        mail: MailQueue,
        log: Any,
        *,
        simulated: Callable[[], bool],
    ) -> None:
        self._store, self._cluster, self._hub, self._log = store, cluster, hub, log
        self._repetitions, self._mail = repetitions, mail
        self._simulated = simulated
        self._looks: dict[tuple[str, str], int] = {}
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        # Quiet: the next look finds what this one did not.
        await Periodic(
            "The collection of benchmarks",
            self.collect_due,
            _EVERY,
            self._log,
            level=logging.DEBUG,
            wake=self.changed,
        ).run()

    async def collect_due(self) -> None:
        """Take, renew and tell what is due. Raises StoreUnavailable."""
        runs = self._store.table(BenchmarkRunTable)
        for added in await runs.untaken():
            await self._take(added)
        renewed = await runs.renewed()
        published = await self._store.versions.published() if renewed else {}
        for added in renewed:
            newest = published.get(added.environment)
            if newest is not None and newest.number > added.version:
                await self._renew(added, newest)
        for fallen in await runs.untold():
            await self._tell(fallen, time.time())

    async def _take(self, added: BenchmarkRun) -> None:
        """Read the results of a run that has ended."""
        run = await self._store.table(RunTable).get(added.user, added.run)
        if run is not None and run.ended_at is None:
            return
        results: list[BenchmarkResult] = []
        problem = ""
        try:
            if run is None:
                raise InvalidRequest("The run was deleted before its results were read.")
            jobs = await self._jobs(run)
            if jobs is None:
                return
            results = await self._results(run, jobs)
        except StoreUnavailable:
            raise
        except PortalError as error:
            problem = error.message
        except Exception:  # of one run, which must not stop those after it
            self._log.exception("The results of run %s could not be read", added.run)
            problem = "The results could not be read. The portal's log says why; ask an admin."
        self._looks.pop((added.user, added.run), None)
        fallen = falls(results)[:_MOST_FALLS]
        values = {"taken_at": time.time(), "problem": problem, "falls": fallen}
        await self._store.table(BenchmarkRunTable).take(added, results, **values)

    async def _jobs(self, run: Run) -> dict[int, Job] | None:
        """Return the jobs of a run's points by number, from accounting, else from slurmctld, which
        keeps them for minutes; None if Slurm is to be queried later. Raises InvalidRequest if it
        does not know them."""
        jobs: dict[int, Job] = {}
        away = False
        for tasks in (self._cluster.ended_tasks, self._cluster.array_tasks):
            try:
                if len(jobs) < run.tasks and run.job_id:
                    jobs = await tasks(run.job_id) | jobs
            except PortalError as error:
                away = away or isinstance(error, Unavailable)
                self._log.info("The jobs of run %s are unknown: %s", run.id, error)
        if len(jobs) >= run.tasks:
            return jobs
        if away:  # an outage of hours loses no results
            return None
        looks = self._looks[run.user, run.id] = self._looks.get((run.user, run.id), 0) + 1
        if looks < _LOOKS:
            return None
        if not jobs:
            raise InvalidRequest(
                "Slurm no longer knows the run's jobs, so the nodes and GPUs are unknown. Run it "
                "again, and add it before it ends."
            )
        return jobs

    async def _results(self, run: Run, jobs: dict[int, Job]) -> list[BenchmarkResult]:
        """Return the results of the points that have succeeded. Raises InvalidRequest."""
        try:
            shipped = await asyncio.to_thread(digests, data_path("deploy") / FOLDER)
        except OSError as error:
            raise InvalidRequest(f"The shipped scripts cannot be read: {error}.") from None
        points = await self._store.table(RunPointTable).of_whole_run(run.user, run.id)
        known = self._store.table(BenchmarkResultTable)
        before = await known.before(run.user, run.id, run.environment)
        results = []
        for number, point in sorted(points.items()):
            if point.state is not PointState.SUCCEEDED or number not in jobs:
                continue
            logged = await self._store.table(RunLoggedTable).get(run.user, run.id, number)
            for table in logged_results(logged):
                if shipped.get(table.benchmark) != table.digest:
                    raise InvalidRequest(
                        f"The run executed another '{table.benchmark}' than this version of the "
                        "portal ships. Run the shipped script, from the starters of "
                        "'resnet50-benchmark'."
                    )
                about = {
                    "user": run.user,
                    "run": run.id,
                    "benchmark": table.benchmark,
                    "environment": run.environment,
                    "version": run.version,
                    "at": point.ended_at or time.time(),
                }
                for reported in table.results:
                    simulated = self._simulated()
                    new = placed(reported, jobs[number], simulated=simulated, about=about)
                    results.append(new.compared(before.get(new.key, ())))
        if not results:
            raise InvalidRequest(
                "No point that succeeded has results of a benchmark. Run a shipped script: "
                f"{', '.join(f'{name}.py' for name in SCRIPTS)}."
            )
        return results

    async def _renew(self, added: BenchmarkRun, newest: EnvironmentVersion) -> None:
        """Repeat a run with a new version of its environment. Its id follows from both: if the
        service is killed meanwhile, nothing is started twice, and nothing is forgotten."""
        runs, version = self._store.table(BenchmarkRunTable), newest.number
        id_ = str(uuid.uuid5(_REPETITIONS, f"{added.user}/{added.run}/{version}"))
        try:
            new = await self._store.table(RunTable).get(added.user, id_)
            if new is None:
                new = await self._repeated(added, newest, id_)
        except Unavailable as error:  # such as the Hub: the next look tries again
            if isinstance(error, StoreUnavailable):
                raise
            return
        except PortalError as error:
            words = f"Not repeated with version {version}. {error.message}"
            await runs.change(added, version=version, problem=words)
            return
        await runs.add_run(
            BenchmarkRun(
                user=new.user,
                run=new.id,
                name=new.name,
                environment=new.environment,
                origin=added.run,
                version=version,
                added_at=time.time(),
            )
        )
        await runs.change(added, version=version, problem="")

    async def _repeated(self, added: BenchmarkRun, newest: EnvironmentVersion, id_: str) -> Run:
        """Start the repetition of a run; return it. Raises PortalError."""
        original = await self._store.table(RunTable).get(added.user, added.run)
        if original is None:
            raise InvalidRequest("The run was deleted, so it cannot be repeated.")
        if not await self._hub.may_log_in(added.user):
            raise NotAllowed(f"'{added.user}' can no longer log in to this portal.")
        digest = newest.environment.digest or ""
        return await self._repetitions().start(
            added.user, original, version=newest.number, digest=digest, id_=id_
        )

    async def _tell(self, fallen: BenchmarkRun, now: float) -> None:
        key = f"benchmark.{fallen.run}"
        if not self._mail.on or self._mail.waits(key):
            return
        number = len(fallen.falls)
        what = f"{number} result{'s' * (number > 1)} of '{one_line(fallen.name)}'"
        version = f"version {fallen.version} of " if fallen.version else ""
        first = f"{what} in {version}{fallen.environment} fell by {FALL:.0%} or more:"
        link = f"All results:\n{self._mail.pages}benchmarks"
        lines = [one_line(text, 400) for text in fallen.falls]
        mail = Mail(key, fallen.user, f"Benchmark: {what} fell", [first, *lines, link])
        if await self._mail.send(mail, now) is not None:
            await self._store.table(BenchmarkRunTable).change(fallen, told_at=now)
