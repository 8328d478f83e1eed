"""Jobs that hold the GPUs, by the snapshot: to assign each reading to a job."""

from __future__ import annotations

from ..models.cluster.cluster import ClusterSnapshot, Job

Gpu = tuple[str, int]  # node name, Slurm's index on that node


def holders(snapshot: ClusterSnapshot) -> dict[Gpu, Job]:
    """Return the running job of each GPU, if Slurm said which GPUs the job has."""
    return {
        (node, index): job
        for job in snapshot.jobs.values()
        if job.state.running
        for node, indexes in job.gpu_indexes.items()
        for index in indexes
    }


def held(snapshot: ClusterSnapshot) -> dict[Gpu, Job | None]:
    """Return all GPUs that are held, with their jobs; None: only the node reports them as used."""
    jobs: dict[Gpu, Job | None] = {
        (node.name, index): None
        for node in snapshot.nodes.values()
        for pool in node.gpus
        for index in pool.used_indexes or ()
    }
    jobs.update(holders(snapshot))
    return jobs
