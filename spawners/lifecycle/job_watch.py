"""Watch of one session's job, through the shared watcher."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from portal.errors import PortalError
from portal.models.cluster.array import whole_job
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState, Node
from portal.slurm import Cluster


def unanswering(job: Job, snapshot: ClusterSnapshot) -> str:
    """Return the job's first node that does not answer Slurm; "" if all do."""
    nodes = (snapshot.nodes.get(name) for name in job.nodes)
    return next((node.name for node in nodes if node is not None and not node.responding), "")


class JobWatch:
    """Watch of the job ``job_id`` of the account ``owner``. ``job`` is the job as last seen, an
    array as one job.

    Snapshots from before the watch tell nothing: a Slurm that has lost its state restarts its job
    ids, so the same id may have been another job, or an earlier job of this owner.
    """

    def __init__(self, cluster: Cluster, job_id: str, owner: str, log: logging.Logger) -> None:
        self.cluster, self.job_id, self.owner, self.log = cluster, job_id, owner, log
        self.job: Job | None = None
        self.position: int | None = None
        self.snapshot: ClusterSnapshot | None = None
        self._nodes: Mapping[str, Node] = {}
        self._since = time.monotonic()

    async def job_since(
        self, newer_than: float, *, urgent: bool = False
    ) -> tuple[Job | None, bool]:
        """Return the job in a snapshot requested at ``newer_than`` (time.monotonic()) or later
        (None: not known), and whether it is over. A failed query of Slurm does not end it.

        Raises SlurmUnavailable if Slurm has never answered.
        """
        newer_than = max(newer_than, self._since)
        return await self._outcome(
            await self.cluster.snapshot(newer_than, jobs_only=True, urgent=urgent)
        )

    async def next_look(self, posted: asyncio.Event, interval: float) -> tuple[Job | None, bool]:
        """Look at the job when it is due, or at once if the session posts its port meanwhile."""
        if posted.is_set():
            return await self._look_after_word()
        query = asyncio.ensure_future(self.job_since(time.monotonic() - interval))
        port = asyncio.ensure_future(posted.wait())
        try:
            await asyncio.wait({query, port}, return_when=asyncio.FIRST_COMPLETED)
            return query.result() if query.done() else await self._look_after_word()
        finally:
            query.cancel()
            port.cancel()

    async def _look_after_word(self) -> tuple[Job | None, bool]:
        """Look at a job that runs by its posted port: any snapshot with its node will do."""
        last = self.cluster.last
        if last is not None and (last.asked_at or 0.0) < self._since:
            last = None
        job = whole_job(last.jobs, self.job_id) if last else None
        if last is not None and job is not None and job.state.running and job.nodes:
            return await self._outcome(last)
        return await self.job_since(time.monotonic(), urgent=True)

    async def _outcome(self, snapshot: ClusterSnapshot) -> tuple[Job | None, bool]:
        self.snapshot, self._nodes = snapshot, snapshot.nodes
        job, over = await self._found(snapshot)
        if job is not None:
            self.job = job
            self.position = self.cluster.position(job, snapshot)
        return job, over

    async def _found(self, snapshot: ClusterSnapshot) -> tuple[Job | None, bool]:
        job = whole_job(snapshot.jobs, self.job_id)
        if job is not None and self._strange(job):
            return Job(id=self.job_id, state=JobState.UNKNOWN), True
        if snapshot.error or (job is not None and not job.state.ended):
            return job, False
        try:
            ended = await self.cluster.ended_job(self.job_id)
        except PortalError as error:
            self.log.warning("Job %s: %s", self.job_id, error)
            return job, False
        if ended is not None and self._strange(ended):
            return Job(id=self.job_id, state=JobState.UNKNOWN), True
        return (ended, True) if ended is not None else (job, False)

    def _strange(self, job: Job) -> bool:
        """Return True if this is somebody else's job: Slurm has lost its state and reuses ids."""
        strange = job.user not in ("", self.owner) and not job.user.isdigit()
        if strange:
            self.log.error("Job %s is %s's, not %s's", self.job_id, job.user, self.owner)
        return strange

    async def is_over(self, pauses: Sequence[float]) -> bool:
        """Look at the job after each pause (seconds) until it is over or ending; else False."""
        for pause in pauses:
            await asyncio.sleep(pause)
            snapshot = await self.cluster.snapshot(time.monotonic(), jobs_only=True, urgent=True)
            job = whole_job(snapshot.jobs, self.job_id)
            over = job is None or job.state.ended or job.state is JobState.COMPLETING
            if over and not snapshot.error:
                return True
        return False

    async def silent_node(self) -> str:
        """Return the job's first node that does not answer Slurm; "" if all do, or if unknown."""
        snapshot = await self.cluster.snapshot()
        if snapshot.error or self.job is None:
            return ""
        self._nodes = snapshot.nodes
        return unanswering(self.job, snapshot)

    def address(self) -> str:
        """Return the session's NodeAddr, since node names need not resolve; "" if unknown."""
        node = self._nodes.get(self.job.nodes[0]) if self.job and self.job.nodes else None
        return node.address if node else ""
