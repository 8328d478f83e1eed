"""Used shares of GPUs on nodes whose Slurm does not count them.

Slurm 22.05 says only of which GPUs shares are in use (``shard:t4:1(IDX:0)``). The jobs have their
number, if Slurm accounts for it (AccountingStorageTRES=gres/shard). Otherwise all shares of such a
GPU count as used: none is promised that may not be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...models.cluster.cluster import GpuPool, Job, Node
from ...models.cluster.gpu_share import UNITS, share_of


def with_counted_shares(nodes: Mapping[str, Node], jobs: Mapping[str, Job]) -> Mapping[str, Node]:
    """Return the nodes with the used shares that their jobs have; ``nodes`` itself if there is
    nothing to count."""
    doubtful = {
        name: node for name, node in nodes.items() if any(pool.uncounted for pool in node.shares)
    }
    if not doubtful:
        return nodes
    held: Counter[tuple[str, str]] = Counter()  # by node and GRES, in Slurm's units
    for job in jobs.values():
        for gres, units in job.shares.items():
            if job.state.running and job.nodes:
                for name in job.nodes:
                    held[name, gres] += -(-units // len(job.nodes))
    changed = dict(nodes)
    for name, node in doubtful.items():
        pools = tuple(_counted(pool, node, held) for pool in node.shares)
        changed[name] = node.altered(shares=pools)
    return changed


def _counted(pool: GpuPool, node: Node, held: Mapping[tuple[str, str], int]) -> GpuPool:
    share = share_of(pool.type)
    if share is None or not pool.uncounted:
        return pool
    like = [other for other in node.shares if other.type.partition(".")[0] == share.gres]
    used = -(-held.get((node.name, share.gres), 0) // UNITS[share.gres])
    # Slurm does not say of which type a job's shares are; and a job's may not be known at all.
    if len(like) > 1 or used < pool.uncounted:
        return pool
    whole = pool.used - pool.uncounted * pool.each
    return pool.altered(used=min(pool.count, max(0, whole) + used), uncounted=0)
