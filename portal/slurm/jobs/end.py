"""The end of a job, from slurmctld's memory and from accounting."""

from __future__ import annotations

import asyncio
import logging
import math
import pwd
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from portal.cache import SharedAnswers
from portal.errors import SlurmRefused, SlurmUnavailable
from portal.models.cluster.array import ArrayJob, task_numbers, whole_job
from portal.models.cluster.cluster import Job, JobState, Node

from .. import parse
from ..commands import queries
from ..commands.run import SlurmRunner

_REMEMBERED = 256
_ACCOUNTING_LAG = 60.0  # seconds
# Of a job that its node did not begin: states, who "cancels" it, seconds between that and the
# draining of the node, and the most that a prolog takes.
_NODE_ENDS = {
    *(JobState.CANCELLED, JobState.FAILED, JobState.NODE_FAIL, JobState.BOOT_FAIL),
    JobState.LAUNCH_FAILED,
}
_SLURM = ("root", "slurm", "0")
_NEAR = 60.0
_AT_ONCE = 5.0  # the same for a launch that failed: Slurm does both in one step
_LONGEST_PROLOG = 900.0
_NO_ACCOUNTING = "accounting storage is disabled"  # sacct's words where there is no slurmdbd
_UNKNOWN_JOB = ("invalid job id", "job/step already completing or completed", "not found")


def forgotten(error: SlurmRefused) -> bool:
    """Return True if Slurm says that it does not know the job (any more)."""
    return any(phrase in error.message.lower() for phrase in _UNKNOWN_JOB)


def _named(reason: str) -> str:
    """Return "CancelledBy:ada" for "CancelledBy:6101". Blocking: may ask the directory service."""
    word, _, uid = reason.partition(":")
    if not uid.isdigit():
        return reason
    try:
        return f"{word}:{pwd.getpwuid(int(uid)).pw_name}"
    except (KeyError, OverflowError):
        return reason


def _ended_tasks(text: str, separator: str, job_id: str) -> dict[int, Job]:
    """Return the ended tasks of an array by number, with users' names. Blocking (``_named``)."""
    jobs = parse.sacct_tasks(text, separator, job_id)
    reasons = {reason: _named(reason) for reason in {job.reason for job in jobs.values()}}
    return {
        number: _over_memory(job.altered(reason=reasons[job.reason]))
        for number, job in jobs.items()
    }


def _killed(job: Job) -> bool:
    """Return True if signal 9 ended the job, possibly the kernel's for lack of memory."""
    return job.exit_signal == 9 and job.state is JobState.FAILED


def _over_memory(job: Job) -> Job:
    """Return the job as OUT_OF_MEMORY if its peak memory says so. Without cgroups
    (JobAcctGatherParams=OverMemoryKill), a job that used too much memory is FAILED by signal 9,
    and only its peak memory tells why."""
    killed = job.state is JobState.FAILED and job.exit_signal == 9
    if killed and job.memory and (job.peak_memory or 0) >= job.memory:
        return job.model_copy(update={"state": JobState.OUT_OF_MEMORY})
    return job


def _by_slurm(job: Job) -> bool:
    """Return True if Slurm itself may have ended the job, for its node could not begin it."""
    word, _, name = job.reason.partition(":")
    short = (job.end_time or 0) - (job.start_time or 0) <= _LONGEST_PROLOG
    return short and (word != "CancelledBy" or name in _SLURM)


def node_trouble(job: Job, nodes: Mapping[str, Node]) -> str:
    """Return the node that was drained or given up as Slurm ended the job, with Slurm's reason:
    "cpu01 (Prolog error)"; "" if there is none. If a node cannot begin a job that may not be
    requeued, slurmd kills it as root (slurmd's req.c), and slurmctld drains the node."""
    for name in job.nodes:
        node, began, ended = nodes.get(name), job.start_time, job.end_time
        if node is None or node.reason_at is None or not (node.drained or node.down):
            continue
        if ended and (began or ended) - _NEAR <= node.reason_at <= ended + _NEAR:
            return f"{name} ({node.reason})"
    return ""


def launch_trouble(job: Job, nodes: Iterable[Node]) -> str:
    """Return the nodes that were drained or given up as Slurm put a job back whose launch had
    failed: "cpu01 (Prolog error)"; "" if there are none. Such a job has no nodes any more, and its
    submit time is that moment (22.05 and 24.11, tests/integration/slurm/test_site_slurm.py)."""
    partitions, moment = set(job.partition.split(",")), job.submit_time or 0.0
    return ", ".join(
        f"{node.name} ({node.reason})"
        for node in nodes
        if node.reason_at is not None
        and abs(node.reason_at - moment) <= _AT_ONCE
        and (node.drained or node.down)
        and not partitions.isdisjoint(node.partitions)
    )


def _settled(job: Job) -> bool:
    """Return True if the answer is final: accounting adds the peak memory a moment later."""
    if job.state is JobState.UNKNOWN:
        return False
    late = job.nodes and job.peak_memory is None
    return not late or time.time() - (job.end_time or 0) > _ACCOUNTING_LAG


class JobEnds:
    """Ends of single jobs; the last 256 are cached, since an end does not change."""

    def __init__(
        self,
        runner: SlurmRunner,
        separator: str,
        log: Any,
        seen: Callable[[str], Job | None] = lambda job_id: None,
        nodes: Callable[[], Awaitable[Mapping[str, Node]]] | None = None,
    ) -> None:
        """Initialize; ``seen`` returns the job as the watcher last saw it, to save a query;
        ``nodes`` the nodes as they are now."""
        self._seen, self._nodes = seen, nodes
        self._runner = runner
        self._separator = separator
        self._log: logging.Logger = log
        self._ends = SharedAnswers[str, tuple[Job | None, float]](
            self._query, most=_REMEMBERED, ttl=lambda answer: answer[1], keep=False
        )

    def forget(self, job_id: str) -> None:
        """Forget the job of this id: a Slurm that lost its state has given the id to a new job.
        Callers that are waiting already get the answer about the old one."""
        self._ends.forget(job_id)

    async def ended_job(self, job_id: str) -> Job | None:
        """Return the ended job, or None while it lives; see Cluster.ended_job."""
        return (await self._ends.for_key(job_id).get())[0]

    async def _query(self, job_id: str) -> tuple[Job | None, float]:
        """Query a job; return it, and for how many seconds the answer holds."""
        job = await self._ask(job_id)
        if job is not None and job.state in _NODE_ENDS and _by_slurm(job):
            if trouble := await self._trouble(job):
                job = job.altered(node_trouble=trouble)
        return job, math.inf if job is not None and _settled(job) else 0.0

    async def _trouble(self, job: Job) -> str:
        """See ``node_trouble``. slurmctld hears of a failed prolog a moment after the job's end."""
        if not job.nodes or self._nodes is None:
            return ""
        # Others than those that root has cancelled usually have nothing to do with their node.
        for pause in (0.0, 0.5, 1.0) if job.reason.startswith("CancelledBy:") else (0.3,):
            await asyncio.sleep(pause)
            if trouble := node_trouble(job, await self._nodes()):
                return trouble
        return ""

    async def since(self, seconds: float) -> list[Job] | None:
        """See Cluster.ended_since."""
        separator = parse.new_separator()
        try:
            output = await self._runner.run(
                queries.ended_since(math.ceil(seconds), separator), timeout=4 * self._runner.timeout
            )
        except SlurmRefused as error:
            if _NO_ACCOUNTING in error.message.lower():
                return None
            raise
        jobs = await asyncio.to_thread(parse.sacct_jobs, output.stdout, separator)
        # A run that was requeued is over too: the next one has a submit time of its own.
        return [
            job
            for job in jobs
            if job.state.ended or (job.state is JobState.REQUEUED and job.end_time is not None)
        ]

    async def tasks(self, job_id: str) -> dict[int, Job]:
        """See Cluster.ended_tasks."""
        separator = parse.new_separator()
        try:
            output = await self._runner.run(
                queries.ended_job(job_id, separator),
                env=queries.WHOLE_LISTS,
                timeout=4 * self._runner.timeout,
            )
        except SlurmRefused as error:
            if _NO_ACCOUNTING in error.message.lower():
                return {}
            raise
        return await asyncio.to_thread(_ended_tasks, output.stdout, separator, job_id)

    async def array_tasks(self, job_id: str) -> dict[int, Job]:
        """See Cluster.array_tasks."""
        try:
            output = await self._runner.run(
                [*queries.JOBS, "--array", f"--jobs={job_id}"],
                env=queries.jobs_environment(self._separator),
            )
        except SlurmRefused as error:
            if forgotten(error):
                return {}
            raise
        jobs = await asyncio.to_thread(parse.jobs, output.stdout, self._separator)
        return {number: job for job in jobs.values() for number in task_numbers(job.id)}

    async def _ask(self, job_id: str) -> Job | None:
        live = self._seen(job_id)
        if live is None or not live.state.ended:
            live = await self._controller(job_id)
        if live is not None and not live.state.ended:
            return None
        if isinstance(live, ArrayJob):
            return await self._ended_array(live)
        recorded = await self._accounting(job_id)
        if live is not None and (_killed(live) or live.state is JobState.CANCELLED):
            # Only accounting tells why, by the peak memory or the name of who cancelled it, and it
            # hears of the end a moment later.
            for _ in range(6 if _killed(live) else 2):
                if recorded is None or (
                    recorded.state.ended and (recorded.peak_memory or not _killed(live))
                ):
                    break
                await asyncio.sleep(0.5)
                recorded = await self._accounting(job_id)
        if recorded is None or not recorded.state.ended:
            # Accounting lags behind, has forgotten, or does not exist.
            return live or Job(id=job_id, state=JobState.UNKNOWN, reason="Forgotten")
        recorded = _over_memory(recorded)
        if live is None:
            reason = await asyncio.to_thread(_named, recorded.reason)
            return recorded.model_copy(update={"reason": reason})
        update: dict[str, Any] = {"peak_memory": recorded.peak_memory}
        if recorded.state is JobState.OUT_OF_MEMORY:
            update["state"] = recorded.state
        if live.state is JobState.CANCELLED and recorded.reason:
            update["reason"] = await asyncio.to_thread(_named, recorded.reason)
        return live.model_copy(update=update)

    async def _ended_array(self, live: ArrayJob) -> ArrayJob:
        """Return an array with all of its ended tasks: slurmctld has forgotten the first ones, and
        accounting hears of the last a moment later. ``live``: as slurmctld has it."""
        for pause in (0.5, 0.5, 1.0, 2.0, 0.0):
            recorded = await self._accounting(live.id)
            if recorded is None:
                break
            # A task that is new to accounting may stand there as a job of its own.
            if isinstance(recorded, ArrayJob) and recorded.state.ended:
                if recorded.ended_tasks >= live.ended_tasks:
                    reason = await asyncio.to_thread(_named, recorded.reason)
                    return recorded.altered(reason=reason)
            await asyncio.sleep(pause)
        return live

    async def _controller(self, job_id: str) -> Job | None:
        try:
            output = await self._runner.run(
                [*queries.JOBS, f"--jobs={job_id}"],
                env=queries.jobs_environment(self._separator),
            )
        except SlurmRefused as error:
            if forgotten(error):
                return None
            raise
        return whole_job(parse.jobs(output.stdout, self._separator), job_id)

    async def _accounting(self, job_id: str) -> Job | None:
        # A separator of its own: command lines can be read by everyone on the machine.
        separator = parse.new_separator()
        try:
            output = await self._runner.run(queries.ended_job(job_id, separator))
        except (SlurmRefused, SlurmUnavailable) as error:
            self._log.debug("No accounting of job %s: %s", job_id, error)
            return None
        # In a thread: an array has thousands of rows.
        return await asyncio.to_thread(parse.sacct_job, output.stdout, separator, job_id)
