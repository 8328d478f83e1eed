"""The shared, cached watcher: one per process queries Slurm, for everyone who wants to know.

Each kind of object has its own time-to-live and is queried once at a time (single-flight). When
Slurm does not answer, the last snapshot stays, with its age and a sentence that says why: an error
is never an empty list.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from traitlets import Float, Instance, Integer, Unicode
from traitlets.config import LoggingConfigurable

from portal.cache import SharedAnswer
from portal.errors import SlurmUnavailable
from portal.models.cluster.account_limits import AccountLimits
from portal.models.cluster.array import whole_job
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    Job,
    Node,
    Qos,
    Reservation,
)
from portal.setting import setting

from .. import parse
from ..commands import queries
from ..commands.configuration import Configuration
from ..commands.run import SlurmRunner
from ..jobs.end import JobEnds
from ..jobs.submission import Submissions, check_job_id
from .account_limits import AccountLimitsWatch
from .accounts import Accounts
from .budget import QueryBudget
from .exchange import VARIABLE, Exchange, SharedOutput
from .gpu_holders import GpuHolders
from .partitions import HOST, read_partitions
from .query_cache import QueryCache
from .queue import Queue
from .shares import with_counted_shares

T = TypeVar("T")


class Cluster(LoggingConfigurable):
    """Cached state of the cluster, and the two actions on it: submit and cancel."""

    runner = Instance(SlurmRunner, help="Runner of the commands.")

    # Seconds for which answers are cached: partitions with reservations, associations with QOS.
    jobs_ttl = Float(2.0)
    nodes_ttl = Float(5.0)
    quiet_nodes_ttl = 20.0  # nodes on the cluster page, if no job has started or ended
    partitions_ttl = Float(60.0)
    associations_ttl = Float(60.0)

    rpcs_per_second = setting(
        Float(0.8, min=0.05),
        """Average requests per second that the Hub sends to slurmctld for waiting sessions, however
        many there are. One query of the jobs costs two (squeue queries partitions too), so at 0.8
        jobs are queried every 2.5 seconds. The service may send as many for its pages; each of
        the two uses the other's answers instead of its own queries.""",
        "c.Cluster.rpcs_per_second = 0.5",
    )

    burst = Integer(4)  # requests at once after an idle period: a single launch is not delayed
    urgent_interval = Float(0.25)  # seconds between queries of the jobs, even urgent ones
    # Seconds that a request waits for new data if older data is known. After that, the older data
    # is shown, with its age. A launch waits up to 5 seconds longer before it is refused.
    patience = Float(3.0)

    # Folder in which the Hub and the service exchange Slurm's answers, so that both together query
    # Slurm as often as one. The Hub makes it (deploy/jupyterhub_config.d/20-service.py) and passes
    # its path to the service. "": each queries Slurm for itself.
    exchange = Unicode()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._exchange = Exchange(self.exchange)
        self._budget = QueryBudget(self.rpcs_per_second, self.burst, self.urgent_interval)
        self._separator = self._exchange.separator()
        self._records: dict[str, Job] = {}
        self._node_records: dict[str, Node] = {}
        self._asleep = False  # a node is switched off to save power
        self._jobs = QueryCache[dict[str, Job]](
            "jobs",
            lambda hurry: self._budget.take(2, hurry=hurry),
            lambda: self._ask(
                "jobs", queries.JOBS, self._read_jobs, queries.jobs_environment(self._separator)
            ),
            lambda: self.patience,
            self._other("jobs", self._read_jobs, lambda: self._budget.follow(2)),
        )
        self._nodes = self._watch("nodes", queries.NODES, self._read_nodes, 2)
        self._partitions = self._watch("partitions", queries.PARTITIONS, read_partitions, 1)
        self._reservations = self._watch(
            "reservations", queries.RESERVATIONS, parse.reservations, 1
        )
        self._qos = self._watch("QOS", queries.QOS, parse.qos, 0)
        self._expected: asyncio.Task[None] | None = None
        self._submissions = Submissions(self.runner, self.log)
        self._looked_at: dict[str, Job] | None = None
        self._ends = JobEnds(
            self.runner,
            self._separator,
            self.log,
            lambda id_: whole_job(self._jobs.value or {}, id_),
            self._nodes_now,
        )
        self._accounts = Accounts(self.runner, lambda: self.associations_ttl)
        self._configuration = Configuration(self.runner, self.log)
        self._account_limits = AccountLimitsWatch(
            self.runner, self._configuration, self._budget.owe
        )
        self._resume_seconds: int | None = None
        self._holders = GpuHolders(self.runner, self._budget, self.log)
        self._jobs_known_at = float("-inf")
        self._placed: dict[str, Job] = {}  # jobs that hold nodes
        self._placed_before: dict[str, Job] = {}  # when the nodes were queried the last time
        self._made: tuple[tuple[Any, ...], ClusterSnapshot] | None = None
        self._queue = Queue()

    def _runner_default(self) -> SlurmRunner:
        return SlurmRunner(parent=self)

    def _exchange_default(self) -> str:
        return os.environ.get(VARIABLE, "")

    async def snapshot(
        self,
        newer_than: float = 0,
        *,
        jobs_only: bool | None = None,
        urgent: bool = False,
        gpu_indexes: bool = False,
        qos: bool = False,
        fresh_reservations: bool = False,
        late: float = 0.0,
    ) -> ClusterSnapshot:
        """Return the cluster's state, from the cache where that is fresh.

        ``newer_than`` (time.monotonic()): the jobs are queried at that moment or later; all who
        wait share one query. ``jobs_only`` (default: whether ``newer_than`` is given) leaves
        nodes, partitions and reservations as they were last known. ``urgent`` does not wait for
        rpcs_per_second. ``gpu_indexes`` also fills Job.gpu_indexes, as far as they are known, and
        queries the nodes after the jobs (portal/slurm/watch/gpu_holders.py): at once if ``urgent``
        or if jobs have started or ended, else after ``quiet_nodes_ttl``. ``qos`` also fills
        ClusterSnapshot.qos, as far as accounting answers. ``fresh_reservations`` queries the
        reservations at ``newer_than`` too. ``late``: seconds to wait for a late answer beyond
        ``patience``, for callers that would be refused otherwise; not for a failed one. Jobs that
        ended within Slurm's MinJobAge are there with their end state.

        If Slurm does not answer: the last snapshot with its old ``taken_at`` and ``error``. Raises
        SlurmUnavailable if there never was one.
        """
        if jobs_only is None:
            jobs_only = newer_than > 0
        now = time.monotonic()
        # Callers with no other wish take the answers that waiting sessions get: those are as fresh
        # as rpcs_per_second allows.
        jobs_ttl = max(self.jobs_ttl, 2.4 / self.rpcs_per_second)
        rest = [
            *([] if gpu_indexes else [(self._nodes, self.nodes_ttl)]),
            (self._partitions, self.partitions_ttl),
            (self._reservations, self.partitions_ttl),
        ]
        await asyncio.gather(
            self._jobs.newer_than(newer_than or now - jobs_ttl, urgent),
            *(
                # Retry failed queries sooner.
                noun.newer_than(now - (min(ttl, self.nodes_ttl) if noun.error else ttl))
                for noun, ttl in rest
                if not (jobs_only and noun.value is not None and not noun.error)
            ),
            *([self._qos.newer_than(now - self.associations_ttl)] if qos else []),
            *([self._reservations.newer_than(newer_than)] if fresh_reservations else []),
        )
        if gpu_indexes:
            if urgent or self._nodes_may_differ():
                placed = self._placed
                await self._nodes.newer_than(self._jobs_known_at)
                self._placed_before = placed
        elif self._strangers():
            await self._nodes.newer_than(now - self.nodes_ttl)
        if self._asleep and not self._nodes.error:
            self._resume_seconds = await self._configuration.resume_seconds()
        snapshot = self._snapshot()
        if late and snapshot.error:
            nouns = (self._jobs, self._nodes, self._partitions, self._reservations)
            await asyncio.gather(*(noun.late_answer(late) for noun in nouns))
            snapshot = self._snapshot()
        if qos and self._qos.value:
            snapshot = snapshot.model_copy(update={"qos": self._qos.value})
        if gpu_indexes:
            in_order = self._nodes.asked_at >= self._jobs_known_at
            snapshot = await self._holders.fill(snapshot, in_order)
        return snapshot

    async def _nodes_now(self) -> Mapping[str, Node]:
        await self._nodes.newer_than(time.monotonic())
        return self._nodes.value or {}

    async def reservations(self, newer_than: float) -> Mapping[str, Reservation]:
        """Return the reservations by name as of ``newer_than`` (time.monotonic()) or later; the
        last known ones if Slurm does not answer."""
        await self._reservations.newer_than(newer_than)
        return self._reservations.value or {}

    @property
    def last(self) -> ClusterSnapshot | None:
        """Snapshot of what is known already, without a query; None before the first answer."""
        try:
            return self._snapshot()
        except SlurmUnavailable:
            return None

    async def ended_job(self, job_id: str) -> Job | None:
        """Return a job as it ended, or None while it still lives.

        Queries slurmctld (which remembers MinJobAge seconds), then accounting, which adds peak
        memory. A job that neither knows is over too: its state is then UNKNOWN. Raises
        SlurmUnavailable if slurmctld does not answer, InvalidRequest for a bad id.
        """
        return await self._ends.ended_job(check_job_id(job_id))

    async def ended_tasks(self, job_id: str) -> dict[int, Job]:
        """Return the ended tasks of an array by number, from accounting; none if the site has no
        accounting. Raises SlurmUnavailable, SlurmRefused, InvalidRequest for a bad id."""
        return await self._ends.tasks(check_job_id(job_id))

    async def array_tasks(self, job_id: str) -> dict[int, Job]:
        """Return the tasks of an array that slurmctld knows, each by itself, by number; snapshots
        have one job for all that wait. Raises as ``ended_tasks`` does."""
        return await self._ends.array_tasks(check_job_id(job_id))

    async def ended_since(self, seconds: float) -> list[Job] | None:
        """Return everyone's jobs that ended in the last ``seconds``, from accounting; None if the
        site has no accounting. A requeued job is there once for each run that is over.

        Raises SlurmUnavailable if accounting does not answer, SlurmRefused if it refuses.
        """
        return await self._ends.since(seconds)

    async def most_array_tasks(self) -> int | None:
        """Return the maximum number of tasks of an array job (MaxArraySize); None: unknown."""
        return await self._configuration.most_array_tasks()

    async def kill_wait(self) -> int | None:
        """Return the seconds that Slurm waits between SIGTERM and SIGKILL; None: unknown. Raises
        nothing."""
        return await self._configuration.kill_wait()

    async def associations(self, user: str) -> tuple[Association, ...] | None:
        """Return what this person may charge; () for nothing, None if the site has no accounting.

        Cached; the last answer stays if accounting does not answer, or does not show the portal
        this person's. Raises SlurmUnavailable if there is none.
        """
        return await self._accounts.of_user(user)

    async def has_account(self, name: str) -> bool | None:
        """Return True if Slurm's accounting has the account, None if the site keeps no accounting.
        Raises SlurmUnavailable."""
        return await self._accounts.exists(name)

    async def account_limits(self, name: str) -> SharedAnswer[AccountLimits]:
        """Return the answer about an account's limits on TRES minutes; see AccountLimitsWatch."""
        return await self._account_limits.of_account(name)

    def known_associations(self, user: str) -> tuple[Association, ...] | None:
        """Return the last answer about this person, however old; None also before any query."""
        return self._accounts.known(user)

    @property
    def known_qos(self) -> Mapping[str, Qos]:
        """QOS by name, as accounting last reported them; empty before any query."""
        return self._qos.value or {}

    def forget(self, user: str) -> None:
        """Forget this person's associations, which have changed: the next query goes to Slurm."""
        self._accounts.forget(user)

    def expect_launches(self) -> None:
        """Query everyone's associations and the QOS in advance: slurmdbd takes a third of a second
        for each.

        Call it in the event loop; it returns at once. Errors are reported when a launch needs the
        answers.
        """
        self._accounts.expect()
        if self._expected is not None and not self._expected.done():
            return
        since = time.monotonic() - self.associations_ttl
        self._expected = asyncio.ensure_future(self._qos.newer_than(since))

    async def submit(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - SlurmRunner kills at that time
    ) -> str:
        """Submit ``argv`` ("sbatch", options, script, arguments) as ``user``; return the job id.

        A caller that is cancelled meanwhile leaves no job behind: it is cancelled once its id is
        known. Raises SlurmRefused with Slurm's reason, or SlurmUnavailable.
        """
        job_id = await self._submissions.submit(argv, env, user, timeout)
        self._ends.forget(job_id)
        return job_id

    async def cancel(
        self,
        job_id: str,
        user: str | None = None,
        *,
        gently: bool = False,
        waiting: bool = False,
    ) -> bool:
        """Cancel a job as ``user``; return False if Slurm says that it is over already.

        ``waiting`` cancels only the tasks of an array that wait.
        ``gently`` sends SIGTERM to the batch script alone (scancel(1) --batch) and leaves the rest
        to it: a plain scancel signals every process of the job at once, the one that holds a
        container's file system included.

        Raises SlurmRefused if this user may not, or SlurmUnavailable.
        """
        return await self._submissions.cancel(job_id, user, gently, waiting)

    def position(self, job: Job, snapshot: ClusterSnapshot) -> int | None:
        """Return a waiting job's place in its partition's queue, from 1; None for other jobs. An
        array has that of its first task."""
        return self._queue.place(job, snapshot.jobs)

    def close(self) -> None:
        """Shut down the runner's threads."""
        self.runner.close()

    def _snapshot(self) -> ClusterSnapshot:
        nouns = (self._jobs, self._nodes, self._partitions, self._reservations)
        error = next((noun.error for noun in nouns if noun.error), "")
        if any(noun.value is None for noun in nouns):
            raise SlurmUnavailable(error or "Slurm has not answered yet.")
        key = (*(id(noun.value) for noun in nouns), self._jobs.asked_at, error)
        key += (self._resume_seconds,)
        if self._made is None or self._made[0] != key:
            # model_construct: the parts are checked models, and there may be thousands.
            self._made = (
                key,
                ClusterSnapshot.model_construct(
                    taken_at=self._jobs.taken_at,
                    asked_at=self._jobs.asked_at,
                    jobs=self._jobs.value,
                    nodes=with_counted_shares(self._nodes.value or {}, self._jobs.value or {}),
                    partitions=self._partitions.value,
                    reservations=self._reservations.value,
                    error=error,
                    submit_host=HOST,
                    resume_seconds=self._resume_seconds,
                ),
            )
        return self._made[1]

    def _nodes_may_differ(self) -> bool:
        """Return True if the nodes may have changed since the last query: jobs have started or
        ended, or it was long ago. Jobs with unknown GPU indexes need a new one, too."""
        nodes, old = self._nodes, self._placed_before
        if nodes.value is None or nodes.error or self._holders.unsettled or self._placed != old:
            return True
        return time.monotonic() - nodes.asked_at >= self.quiet_nodes_ttl

    def _strangers(self) -> bool:
        """Return True if a job runs on an unknown node. Checks each answer only once."""
        jobs, known = self._jobs.value, self._nodes.value
        if not jobs or known is None or jobs is self._looked_at:
            return False
        self._looked_at = jobs
        return any(
            name not in known for job in jobs.values() if job.state.running for name in job.nodes
        )

    def _read_jobs(self, text: str) -> dict[str, Job]:
        self._records = parse.jobs_by_record(text, self._separator, self._records)
        jobs = {job.id: job for job in self._records.values()}
        self._placed = {id_: job for id_, job in jobs.items() if job.nodes and not job.state.ended}
        self._jobs_known_at = time.monotonic()
        return jobs

    def _read_nodes(self, text: str) -> dict[str, Node]:
        self._node_records = parse.nodes_by_record(text, self._node_records)
        self._asleep = any(node.asleep for node in self._node_records.values())
        return {node.name: node for node in self._node_records.values()}

    def _watch(
        self, name: str, argv: Sequence[str], read: Callable[[str], dict[str, Any]], cost: int
    ) -> QueryCache[dict[str, Any]]:
        # A person waits for these: they are charged at once, and later queries of jobs wait.
        return QueryCache(
            name,
            lambda _: self._budget.take(cost),
            lambda: self._ask(name, argv, read),
            lambda: self.patience,
            self._other(name, read),
        )

    async def _ask(
        self,
        name: str,
        argv: Sequence[str],
        read: Callable[[str], T],
        env: Mapping[str, str] | None = None,
    ) -> T:
        asked_at = time.monotonic()
        output = await self.runner.run(argv, env=env)

        def understand() -> T:
            answer = read(output.stdout)
            self._exchange.put(name, output.stdout, asked_at)
            return answer

        return await asyncio.to_thread(understand)

    def _other(
        self, name: str, read: Callable[[str], T], taken: Callable[[], None] = lambda: None
    ) -> SharedOutput[T] | None:
        if not self._exchange.active:
            return None
        return SharedOutput(self._exchange, name, read, taken)
