"""Which GPUs jobs hold, by the snapshot: the other side of every reading."""

from __future__ import annotations

from ..models.cluster.cluster import ClusterSnapshot, Job

Gpu = tuple[str, int]  # node name, Slurm's index on that node


def holders(snapshot: ClusterSnapshot) -> dict[Gpu, Job]:
    """The running job of each GPU, where Slurm said which GPUs the job has."""
    return {
        (node, index): job
        for job in snapshot.jobs.values()
        if job.state.running
        for node, indexes in job.gpu_indexes.items()
        for index in indexes
    }


def held(snapshot: ClusterSnapshot) -> dict[Gpu, Job | None]:
    """Every GPU that is held; None where only the node says so, not by whom."""
    found: dict[Gpu, Job | None] = {
        (node.name, index): None
        for node in snapshot.nodes.values()
        for pool in node.gpus
        for index in pool.used_indexes or ()
    }
    found.update(holders(snapshot))
    return found
