"""GPU indexes that each job holds, found with as few queries as possible.

squeue says how many GPUs a job has, not which. ``scontrol -d show job`` does, in 2 kB a job: 20 MB
for ten thousand jobs, too much for every look. But ``scontrol -d show node`` lists the indexes
that are in use on each node, and those left over by the jobs with known indexes belong to the one
job without. Slurm is queried only about the other jobs, and once: an allocation does not change
while a job runs.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from portal.errors import PortalError
from portal.models.cluster.cluster import ClusterSnapshot, Job, Node

from .. import parse
from ..commands import queries
from ..commands.run import SlurmRunner
from .budget import QueryBudget

Held = dict[str, tuple[int, ...]]  # node name -> indexes

_SINGLY = 12  # jobs queried one by one in a look; if there are more, all jobs are queried
_ALL_AGAIN = 60.0  # seconds between two queries of all jobs
_ASK_AGAIN = 15.0  # seconds until a job without an answer is queried again; then 4 times that
_ID = re.compile(r"[0-9]+([_+][0-9]+)?")  # what scontrol takes: a job, a task, a component
_PATIENCE = 1.0  # seconds that a look waits for an answer; a later one is for the next look


class GpuHolders:
    """Cache of GPU indexes by job, which fills Job.gpu_indexes."""

    def __init__(self, runner: SlurmRunner, budget: QueryBudget, log: logging.Logger) -> None:
        self._runner, self._budget, self._log = runner, budget, log
        self._known: dict[str, tuple[float | None, Held]] = {}  # with the job's start
        # Inferred at the last look: the nodes of each job, and by node the starts of its jobs.
        self._concluded_at = float("-inf")  # by the monotonic clock
        self._concluded: dict[str, tuple[str, ...]] = {}
        self._beside: dict[str, dict[str, float | None]] = {}
        self._filled: dict[str, tuple[Job, Job]] = {}  # as squeue has it, and with its indexes
        self._asked: dict[str, tuple[float, int]] = {}  # last query, number of queries
        self._asked_all = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.unsettled = False  # the last look left jobs whose indexes are not known

    async def fill(self, snapshot: ClusterSnapshot, nodes_after_jobs: bool) -> ClusterSnapshot:
        """Return the snapshot with Job.gpu_indexes, as far as they are known; {} for other jobs.

        ``nodes_after_jobs``: the nodes were queried when the jobs were known already. Only then
        are indexes inferred from them: every one of these jobs has its GPUs by then, so what it
        holds is in use, and if as many are left as it has, those are its own. That is wrong if one
        of the others had ended by then: an inference stands if the next look still finds them all.
        A job that has not changed is the same object as in the last answer.
        """
        async with self._lock:
            holding, unknown = await asyncio.to_thread(self._look, snapshot, nodes_after_jobs)
            if unknown and not snapshot.error:
                await self._ask(unknown, holding)
            self.unsettled = not self._known.keys() >= set(unknown)
            jobs = await asyncio.to_thread(self._with_indexes, snapshot.jobs, holding)
        return snapshot.altered(jobs=jobs)

    def _look(
        self, snapshot: ClusterSnapshot, nodes_after_jobs: bool
    ) -> tuple[dict[str, Job], list[str]]:
        """Return the jobs that hold GPUs, and the ids of those to query Slurm about."""
        holding = {
            id_: job
            for id_, job in snapshot.jobs.items()
            if job.gpus and job.nodes and not job.state.ended
        }
        for id_, (start, _) in list(self._known.items()):
            # An id may come again, and a requeued job gets other GPUs.
            if id_ not in holding or holding[id_].start_time != start:
                del self._known[id_]
        # The same jobs again, as when Slurm does not answer, do not tell which ended since.
        newer = snapshot.age <= time.monotonic() - self._concluded_at
        if newer:
            self._doubt(holding)
        self._filled = {id_: entry for id_, entry in self._filled.items() if id_ in holding}
        self._asked = {id_: entry for id_, entry in self._asked.items() if id_ in holding}
        unknown = [id_ for id_ in holding if id_ not in self._known]
        if unknown and nodes_after_jobs and newer:
            self._conclude(holding, unknown, snapshot.nodes)
            self._concluded_at = time.monotonic()
        # Where Slurm does not number a node's GPUs, it does not say which a job holds either.
        numbered = {name for name, node in snapshot.nodes.items() if _numbered(node)}
        return holding, [
            id_
            for id_ in unknown
            if id_ not in self._known
            and _ID.fullmatch(id_)
            and numbered.issuperset(holding[id_].nodes)
        ]

    def _doubt(self, holding: Mapping[str, Job]) -> None:
        """Drop inferences made beside a job that has left its node since, and in turn those that
        were inferred from them."""
        doubtful = {
            name
            for name, jobs in self._beside.items()
            for id_, start in jobs.items()
            if id_ not in holding
            or holding[id_].start_time != start
            or name not in holding[id_].nodes
        }
        while given_up := [id_ for id_, nodes in self._concluded.items() if doubtful & set(nodes)]:
            for id_ in given_up:
                doubtful.update(self._concluded.pop(id_))
                self._known.pop(id_, None)
        self._concluded, self._beside = {}, {}

    def _conclude(
        self, holding: Mapping[str, Job], unknown: Iterable[str], nodes: Mapping[str, Node]
    ) -> None:
        left = {name: set(_in_use(nodes[name])) for name in nodes}
        for id_, (_, held) in self._known.items():
            for name in held.keys() & set(holding[id_].nodes):
                left.get(name, set()).difference_update(held[name])
        waiting: dict[str, set[str]] = defaultdict(set)
        for id_ in unknown:
            for name in holding[id_].nodes:
                waiting[name].add(id_)
        look = list(unknown)
        while look:
            job = holding[look.pop()]
            if job.id in self._known or not all(name in left for name in job.nodes):
                continue
            if sum(len(left[name]) for name in job.nodes) != job.gpus:
                continue
            self._know(job, {name: tuple(sorted(left[name])) for name in job.nodes if left[name]})
            self._concluded[job.id] = job.nodes
            for name in job.nodes:
                left[name] = set()
                waiting[name].discard(job.id)
                look += waiting[name]  # there is less left for them now
        concerned = {name for nodes in self._concluded.values() for name in nodes}
        for job in holding.values():
            for name in concerned.intersection(job.nodes):
                self._beside.setdefault(name, {})[job.id] = job.start_time

    def _know(self, job: Job, held: Held) -> None:
        self._known[job.id] = (job.start_time, held)

    async def _ask(self, unknown: list[str], holding: Mapping[str, Job]) -> None:
        if self._asking is None or self._asking.done():
            now = time.monotonic()
            due = [id_ for id_ in unknown if now >= self._due(id_)]
            if not due:
                return
            if len(due) > _SINGLY and now >= self._asked_all + _ALL_AGAIN:
                self._asked_all = now
                asking = self._ask_all(holding)
            else:
                due = due[:_SINGLY]
                asking = self._ask_singly(due, holding)
            for id_ in due:
                self._asked[id_] = (now, self._asked.get(id_, (0.0, 0))[1] + 1)
            self._asking = asyncio.create_task(asking)
        await asyncio.wait({self._asking}, timeout=_PATIENCE)

    def _due(self, id_: str) -> float:
        """Return the time from which this job may be queried (time.monotonic())."""
        if id_ not in self._asked:
            return float("-inf")
        last, times = self._asked[id_]
        return last + _ASK_AGAIN * 4.0 ** min(times - 1, 5)

    async def _ask_all(self, holding: Mapping[str, Job]) -> None:
        await self._budget.take(2)
        await self._read(holding, queries.GPU_INDEXES)

    async def _ask_singly(self, ids: list[str], holding: Mapping[str, Job]) -> None:
        await self._budget.take(2 * len(ids))
        # The answer about a job cannot contain another's: only the queried jobs are trusted.
        jobs = {id_: holding[id_] for id_ in ids}
        commands = "".join(f"show job {id_}\n" for id_ in ids)
        await self._read(jobs, queries.GPU_INDEXES_OF_SOME, commands)

    async def _read(
        self, jobs: Mapping[str, Job], argv: tuple[str, ...], input: str | None = None
    ) -> None:
        try:
            # A job that is gone by now makes the status 1; the others are answered all the same.
            output = await self._runner.run(argv, input=input, check=input is None)
        except PortalError as error:
            self._log.warning("The GPU indexes of jobs are not known: %s", error)
            return
        for id_, held in (await asyncio.to_thread(parse.gpu_indexes, output.stdout, jobs)).items():
            self._know(jobs[id_], held)

    def _with_indexes(self, jobs: Mapping[str, Job], holding: Mapping[str, Job]) -> dict[str, Job]:
        filled = dict(jobs)
        for id_, job in holding.items():
            if id_ not in self._known:
                continue
            before = self._filled.get(id_)
            held = {
                name: indexes
                for name, indexes in self._known[id_][1].items()
                if name in job.nodes  # a job that ends gives its nodes back one by one
            }
            if before is None or before[0] is not job or before[1].gpu_indexes != held:
                self._filled[id_] = (job, job.altered(gpu_indexes=held))
            filled[id_] = self._filled[id_][1]
        return filled


def _in_use(node: Node) -> Iterable[int]:
    """Return the indexes of GPUs that Slurm says are in use as a whole, over all types."""
    return (
        index
        for pool in node.gpus
        for index in pool.used_indexes or ()
        if index not in pool.shared_indexes
    )


def _numbered(node: Node) -> bool:
    return all(pool.used_indexes is not None for pool in node.gpus if pool.used)
