"""Limits of a session: its environment, the person's QOS and account, the partition's nodes.

The order of limits is that of Slurm's page "Resource Limits": the partition's QOS, the job's QOS
(qos.py), the association; the first that sets a limit counts.

Each function returns its reasons; an empty list means that nothing is in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...models.catalog.environment import Environment, refusals_of
from ...models.cluster.cluster import Association, ClusterSnapshot, Node, Partition, Qos
from ...models.cluster.gpu_share import SHARED, UNITS, Share, share_of
from ...models.session.resources import Resources
from ...models.words import count, duration
from ..fields import Objection
from ..node_kinds import kinds_of

ANY_TIME = "PartitionTimeLimit"  # flags that let a job exceed the partition's own limits
ANY_NODES = "PartitionMaxNodes"
FEW_NODES = "PartitionMinNodes"

_Limits = Mapping[str, Mapping[str, int]]  # whose -> TRES -> amount, as in Qos.max_tres


def environment_limits(resources: Resources, environment: Environment) -> list[Objection]:
    """Return why the environment does not allow the session, over all of its nodes."""
    reasons: list[Objection] = []
    title, nodes = environment.title, resources.nodes
    gpus = resources.gpus
    if gpus > 1 and _share(resources):
        gpus = 1  # shares are of one GPU
    if environment.max_gpus is not None and gpus * nodes > environment.max_gpus:
        reasons.append(Objection(f"'{title}' allows at most {environment.max_gpus} GPUs.", "gpus"))
    refused = refusals_of(environment).get(resources.gpu_type or "")
    if refused:
        reasons.append(Objection(refused, "gpu_type"))
    elif environment.gpu_types and resources.gpu_type not in (None, *environment.gpu_types):
        reasons.append(
            Objection(
                f"'{title}' runs only on these GPUs: {', '.join(environment.gpu_types)}.",
                "gpu_type",
            )
        )
    if environment.max_cpus is not None and (resources.cpus or 0) * nodes > environment.max_cpus:
        reasons.append(Objection(f"'{title}' allows at most {environment.max_cpus} CPUs.", "cpus"))
    if environment.max_memory and resources.memory:
        if resources.memory * nodes > environment.max_memory:
            reasons.append(
                Objection(f"'{title}' allows at most {environment.max_memory} of memory.", "memory")
            )
    if environment.max_time is not None and resources.time:
        if resources.time > environment.max_time:
            most = duration(environment.max_time)
            reasons.append(Objection(f"'{title}' allows a time limit of at most {most}.", "time"))
    return reasons


def within(environment: Environment, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``defaults`` that nobody asked for, cut down to what the environment allows; its
    largest time and memory if there is no default, since Slurm's own may be larger."""
    cut = dict(defaults)
    largest = {"time": environment.max_time, "memory": environment.max_memory}
    for key, limit in largest.items():
        if limit is not None and (cut.get(key) is None or cut[key] > limit):
            cut[key] = limit
    for key, most in {"gpus": environment.max_gpus, "cpus": environment.max_cpus}.items():
        if most is not None and (cut.get(key) or 0) > most:
            cut[key] = most
    return cut


def accounting_limits(
    resources: Resources, rows: Sequence[Association], qos: Sequence[Qos]
) -> list[Objection]:
    """Return the exceeded limits of time and TRES, of the first of ``qos`` or else the
    association.

    ``rows``: the associations that the session may be charged to, not empty; ``qos``: those whose
    limits it has, in order of precedence.
    """
    reasons: list[Objection] = []
    who, longest = longest_wall(rows, qos)
    if longest is not None and resources.time and resources.time > longest:
        most = duration(longest)
        reasons.append(Objection(f"{who} allows a time limit of at most {most}.", "time"))
    gpus = _most([row.max_gpus_per_job for row in rows])
    sources: list[tuple[str, _Limits]] = [
        (f"The QOS '{source.name}'", source.max_tres) for source in qos
    ]
    sources.append(("Your account", {"job": {"gres/gpu": gpus}} if gpus is not None else {}))
    each = asked_tres(resources)
    whole = {name: amount * resources.nodes for name, amount in each.items()}
    for name in each:
        exceeded = [
            first
            for whose in ("job", "user", "account", "group")
            if (first := first_limit(sources, whose, name)) and whole[name] > first[1]
        ]
        if exceeded:
            who, limit = min(exceeded, key=lambda source: source[1])
            reasons.append(
                Objection(
                    f"{who} allows at most {tres_words(name, limit)} in one session.",
                    _field_of(name),
                )
            )
        per_node = first_limit(sources, "node", name)
        if per_node and each[name] > per_node[1]:
            words = tres_words(name, per_node[1])
            reasons.append(
                Objection(f"{per_node[0]} allows at most {words} on one node.", _field_of(name))
            )
    return reasons


def longest_wall(rows: Sequence[Association], qos: Sequence[Qos]) -> tuple[str, int | None]:
    """Return who limits the time, and its seconds, as in ``accounting_limits``; None: nobody."""
    walls = [(f"The QOS '{source.name}'", source.max_wall) for source in qos]
    walls.append(("Your account", _most([row.max_wall for row in rows])))
    return next(((who, limit) for who, limit in walls if limit is not None), ("", None))


def _most(limits: Sequence[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


def first_limit(
    sources: Sequence[tuple[str, _Limits]], whose: str, name: str
) -> tuple[str, int] | None:
    """Return who sets the limit that counts for a TRES, and the limit; None if nobody does."""
    for who, limits in sources:
        limit = limits.get(whose, {}).get(name)
        if limit is not None:
            return who, limit
    return None


def asked_tres(resources: Resources) -> dict[str, int]:
    """Return what is asked for on each node, by Slurm's TRES names; memory in MiB."""
    asked = {"cpu": resources.cpus or 0, "gres/gpu": resources.gpus}
    if share := _share(resources):
        asked = {"cpu": asked["cpu"], f"gres/{share.gres}": resources.gpus * UNITS[share.gres]}
    elif resources.gpu_type:
        asked[f"gres/gpu:{resources.gpu_type}"] = resources.gpus
    if resources.memory:
        asked["mem"] = resources.memory
    return {name: amount for name, amount in asked.items() if amount}


def _share(resources: Resources) -> Share | None:
    kind = resources.gpu_type or ""
    return share_of(kind) if kind.startswith(SHARED) else None


def _field_of(name: str) -> str:
    return {"cpu": "cpus", "mem": "memory"}.get(name, "gpus")


def tres_words(name: str, amount: int) -> str:
    """Return "2 GPUs", "16G of memory" for a TRES as Slurm names it."""
    if name == "mem":
        whole, rest = divmod(amount, 1024)
        return f"{amount}M of memory" if rest else f"{whole}G of memory"
    nouns = {"cpu": "CPU", "gres/gpu": "GPU", "gres/shard": "shard", "gres/mps": "MPS unit"}
    noun = nouns.get(name) or f"{name.partition(':')[2]} GPU"
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def has_gpus(node: Node, gpu_type: str | None = None) -> bool:
    """Return True if a node has GPUs (of ``gpu_type``, if one is named)."""
    return any(pool.count for pool in node.pools_of(gpu_type))


def suits(resources: Resources, node: Node) -> bool:
    """Return True if a node is of the kind that is asked for, however much of it is free."""
    wanted = set(resources.constraint.split("&")) if resources.constraint else set()
    return wanted <= set(node.features) and (
        not resources.gpus or has_gpus(node, resources.gpu_type)
    )


def partition_limits(
    resources: Resources,
    partition: Partition,
    snapshot: ClusterSnapshot,
    flags: Collection[str] = (),
) -> list[Objection]:
    """Return what the partition and its nodes cannot give. ``flags``: of the session's QOS."""
    reasons: list[Objection] = []
    kinds = kinds_of(partition, snapshot)
    where = f"The partition '{partition.name}'"
    if partition.max_time is not None and resources.time and ANY_TIME not in flags:
        if resources.time > partition.max_time:
            reasons.append(
                Objection(
                    f"{where} allows a time limit of at most {duration(partition.max_time)}.",
                    "time",
                )
            )
    most_nodes = None if ANY_NODES in flags else partition.max_nodes
    if most_nodes is not None and resources.nodes > most_nodes:
        reasons.append(Objection(f"{where} allows at most {most_nodes} nodes.", "nodes"))
    if resources.nodes < partition.min_nodes and FEW_NODES not in flags:
        least = f"{where} takes only sessions of at least {partition.min_nodes} nodes."
        reasons.append(Objection(least, "nodes"))
    most_cpus, most_memory = partition.max_cpus_per_node, partition.max_memory_per_node
    if most_cpus is not None and (resources.cpus or 0) > most_cpus:
        size = tres_words("cpu", most_cpus)
        reasons.append(Objection(f"{where} allows at most {size} on one node.", "cpus"))
    if most_memory is not None and (resources.memory or 0) > most_memory:
        size = tres_words("mem", most_memory)
        reasons.append(Objection(f"{where} allows at most {size} on one node.", "memory"))
    if partition.requires_reservation and not resources.reservation:
        reasons.append(
            Objection(f"{where} takes only sessions in a reservation. Choose one.", "reservation")
        )
    if not kinds:
        return reasons
    number = sum(kind.number for kind in kinds)
    if resources.nodes > number:
        reasons.append(Objection(f"{where} has {number} nodes, not {resources.nodes}.", "nodes"))
    if resources.constraint:
        alone = Resources(constraint=resources.constraint)
        having = [kind for kind in kinds if suits(alone, kind.node)]
        if not having:
            features = ", ".join(sorted({name for kind in kinds for name in kind.node.features}))
            reasons.append(
                Objection(
                    f"{where} has no node with the features '{resources.constraint}'. "
                    f"Its nodes have: {features or 'none'}.",
                    "constraint",
                )
            )
            return reasons
        kinds = tuple(having)
        number = sum(kind.number for kind in kinds)
        if resources.nodes > number:
            reasons.append(
                Objection(
                    f"{where} has {number} nodes with the features '{resources.constraint}', "
                    f"not {resources.nodes}.",
                    "nodes",
                )
            )
    if resources.gpus:
        fitting = tuple(kind for kind in kinds if has_gpus(kind.node, resources.gpu_type))
        noun = f"{resources.gpu_type} GPUs" if resources.gpu_type else "GPUs"
        if _share(resources):
            noun = f"{resources.gpu_type} shares"
        if not fitting:
            pools = (pool for kind in kinds for pool in (*kind.node.gpus, *kind.node.shares))
            have = sorted({pool.type for pool in pools if pool.count})
            offer = f"It has: {', '.join(have)}." if have else ""
            lacking = Objection(f"{where} has no {noun}. {offer}".strip(), "gpus")
            return [*reasons, lacking]
        most = max(_most_gpus(resources, kind.node) for kind in fitting)
        if resources.gpus > most:
            reasons.append(Objection(f"{where} has at most {most} {noun} on one node.", "gpus"))
        kinds = fitting
    cpus = max(_cpus_of(kind.node, partition) for kind in kinds)
    if resources.cpus and resources.cpus > cpus:
        size = tres_words("cpu", cpus)
        reasons.append(Objection(f"{where} has at most {size} on one such node.", "cpus"))
    memory = max(kind.node.memory for kind in kinds)
    if resources.memory and resources.memory > memory:
        reasons.append(
            Objection(
                f"{where} has at most {memory // 1024}G of memory on one such node.", "memory"
            )
        )
    each = partition.max_memory_per_cpu
    if each and most_cpus is not None:
        cpus = min(cpus, most_cpus)
    if each and (resources.memory or 0) > each * cpus:
        size = tres_words("mem", each * cpus)
        reasons.append(
            Objection(
                f"{where} allows at most {size} on one such node: {tres_words('mem', each)} for "
                "each CPU.",
                "memory",
            )
        )
    holding = sum(
        kind.number
        for kind in kinds
        if holds(resources, kind.node) and _cpus_of(kind.node, partition) >= (resources.cpus or 0)
    )
    if not reasons and holding < resources.nodes:
        whole = ", ".join(tres_words(*tres) for tres in asked_tres(resources).items())
        fewer = f"only {count(holding, 'node')}" if holding else "no node"
        reasons.append(
            Objection(f"{where} has {fewer} with all of this together: {whole}.", "partition")
        )
    return reasons


def _cpus_of(node: Node, partition: Partition) -> int:
    """Return the CPUs that a job of the partition may have on a node."""
    limit = partition.max_cpus_per_socket
    if limit is None or not node.sockets:
        return node.cpus
    return min(node.cpus, limit * node.sockets)


def _most_gpus(resources: Resources, node: Node) -> int:
    """Return the most GPUs of one type, of the type that is asked for if one is; a job's shares
    are of one GPU (slurm.conf(5), MULTIPLE_SHARING_GRES_PJ)."""
    pools = node.pools_of(resources.gpu_type)
    return max((pool.each or pool.count for pool in pools), default=0)


def holds(resources: Resources, node: Node) -> bool:
    """Return True if a node, when it is empty, has all that is asked for on one node."""
    return (
        suits(resources, node)
        and _most_gpus(resources, node) >= resources.gpus
        and node.cpus >= (resources.cpus or 0)
        and node.memory >= (resources.memory or 0)
    )
