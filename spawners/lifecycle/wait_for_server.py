"""Wait for one job's server: until Slurm has started the job, and the server posted its port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from portal.models.cluster.cluster import Job

from .job_watch import JobWatch

_QUIET = 6.0  # seconds that a server may take before it is asked whether its node answers Slurm


class JobOver(Exception):
    """End of the job before its server was there."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.id)
        self.job = job


class NoServer(Exception):
    """Running job whose server has been silent for too long. ``seconds``: how long."""

    def __init__(self, job: Job, seconds: float) -> None:
        super().__init__(job.id)
        self.job, self.seconds = job, seconds

    @property
    def message(self) -> str:
        return (
            f"The job runs on {', '.join(self.job.nodes)}, but its server did not answer within "
            f"{self.seconds:g} s."
        )


class SilentNode(Exception):
    """Job on a node that does not answer Slurm, without any sign of its server."""

    def __init__(self, job: Job, node: str) -> None:
        super().__init__(job.id)
        self.job, self.node = job, node


async def address_of(
    watch: JobWatch,
    posted: asyncio.Event,
    *,
    interval: float,
    patience: float,
    see: Callable[[Job | None, bool], None],
    elsewhere: bool = False,
) -> str:
    """Return the address of the node where the job's server listens, once its port is ``posted``.

    ``interval``: seconds between two looks; ``patience``: seconds that the server may take once
    the job runs. ``see`` gets the job at each look, and whether it is over. ``elsewhere``: a job
    whose node does not answer may be submitted anew, so SilentNode is raised for one. Raises
    JobOver, NoServer, SlurmUnavailable.
    """
    running_since: float | None = None
    placed_since: float | None = None
    while True:
        # Pause first: Slurm's earlier answers know nothing of the job.
        await _pause(posted, interval)
        job, over = await watch.next_look(posted, interval)
        see(job, over)
        if job is not None and over:
            raise JobOver(job)
        if job is not None and job.nodes and not posted.is_set():
            placed_since = placed_since or time.monotonic()
            if time.monotonic() - placed_since > _QUIET:
                node = await watch.silent_node()  # shown by ``see``, too
                if node and elsewhere and not posted.is_set():
                    raise SilentNode(job, node)
        if job is not None and job.state.running:
            running_since = running_since or time.monotonic()
            address = watch.address()
            if posted.is_set() and address:
                return address
            if time.monotonic() - running_since > patience:
                raise NoServer(job, patience)


async def _pause(posted: asyncio.Event, interval: float) -> None:
    if posted.is_set():
        await asyncio.sleep(0.1)
        return
    try:
        await asyncio.wait_for(posted.wait(), interval)
    except TimeoutError:
        return
