"""Partitions: which of them take a person's request, and the one that is chosen. Pure.

The rules are those of slurm.conf(5), "PARTITION CONFIGURATION". What is not certain here (groups
that the directory does not have, accounts without accounting) is left to Slurm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import InvalidRequest, NotAllowed
from ..models.cluster.cluster import Association, ClusterSnapshot, Partition
from ..models.person import Person
from ..models.session.resources import Resources
from .estimate import starts_now
from .fields import Objection
from .limits.limits import accounting_limits, has_gpus, holds, partition_limits
from .limits.qos import admits_qos, charged, effective_qos, limiting
from .node_kinds import kinds_of

Associations = Sequence[Association] | None  # None: the site keeps no accounting


def closed(
    partition: Partition, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> str:
    """Return why the partition takes no job of this person, whatever it asks for, as a clause: "it
    takes only jobs of root (RootOnly)"; "" if it may take some."""
    host, root = snapshot.submit_host, person.name == "root"
    if partition.state != "UP":
        return f"it is closed at the moment (State={partition.state})"
    if partition.root_only and not root:
        return "it takes only jobs of root (RootOnly)"
    if partition.no_root_jobs and root:
        return "it takes no jobs of root (DisableRootJobs)"
    if partition.alloc_nodes and host and host not in partition.alloc_nodes:
        hosts = ", ".join(partition.alloc_nodes)
        return f"it takes only jobs from {hosts}, not from {host} (AllocNodes)"
    if associations is not None:
        accounts = {row.account for row in associations}
        if not _admits(partition, accounts):
            return f"it {_accounts_words(partition)}"
        bound = {row.partition for row in associations}
        if bound and "" not in bound and partition.name not in bound:
            return "your Slurm accounts are for other partitions"
    qos = {name for row in associations or () for name in row.qos}
    if qos and not any(admits_qos(partition, name) for name in qos):
        return "it does not allow your QOS"
    if partition.groups_known and person.groups and not person.admin:
        if not set(person.groups) & set(partition.allow_groups):
            return f"it allows only the groups {', '.join(partition.allow_groups)}"
    return ""


def allowed_partitions(
    person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> list[Partition]:
    """Return the partitions that are up and open to this person, the default one first; hidden
    ones only if there are no others."""
    partitions = [
        partition
        for partition in snapshot.partitions.values()
        if not closed(partition, person, snapshot, associations)
    ]
    shown = [partition for partition in partitions if not partition.hidden] or partitions
    return sorted(shown, key=lambda p: (not p.default, p.name))


def named_partition(
    name: str | None, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> Partition | None:
    """Return the partition that a request names; None if it names none. Raises InvalidRequest for
    an unknown one, NotAllowed for one that takes no job of this person."""
    if name is None:
        return None
    available = ", ".join(p.name for p in allowed_partitions(person, snapshot, associations))
    if name not in snapshot.partitions:
        raise InvalidRequest(
            f"This cluster has no partition '{name}'. Available: {available}.", "partition"
        )
    partition = snapshot.partitions[name]
    reason = closed(partition, person, snapshot, associations)
    if reason:
        raise NotAllowed(
            f"The partition '{name}' is not available to you: {reason}. "
            f"Available: {available or 'none'}.",
            "partition",
        )
    return partition


def objections_in(
    partition: Partition,
    resources: Resources,
    snapshot: ClusterSnapshot,
    associations: Associations,
) -> list[Objection]:
    """Return why a partition that is open to a person never runs this request."""
    reasons = []
    rows = charged(resources.account, partition.name, associations or ())
    accounts = {row.account for row in rows}
    if accounts and not _admits(partition, accounts):
        account = " or ".join(sorted(accounts))
        reasons.append(
            Objection(
                f"The partition '{partition.name}' does not allow the account '{account}': it "
                f"{_accounts_words(partition)}. Choose another account or partition.",
                "account",
            )
        )
    qos = effective_qos(resources.qos, resources.account, partition.name, associations)
    if qos and not admits_qos(partition, qos):
        takes = f" Allowed: {', '.join(partition.allow_qos)}." if partition.allow_qos else ""
        where = f"the partition '{partition.name}'"
        reasons.append(Objection(f"The QOS '{qos}' is not allowed in {where}.{takes}", "qos"))
    flags = snapshot.qos[qos].flags if qos in snapshot.qos else ()
    return reasons + partition_limits(resources, partition, snapshot, flags)


def choose_partition(
    resources: Resources,
    person: Person,
    snapshot: ClusterSnapshot,
    associations: Associations,
) -> str | None:
    """Return the partition for a request that names none: of those that are sure to run it, one
    without GPUs for a session without, then one that starts it now, then one that starts it
    later.

    If none is sure: None, which is Slurm's default partition, unless that is known to refuse it.
    If all are, the one with the fewest objections, which then say what is missing.
    """
    allowed = allowed_partitions(person, snapshot, associations)
    if resources.reservation in snapshot.reservations:
        wanted = snapshot.reservations[resources.reservation or ""].partition
        if wanted and wanted in {partition.name for partition in allowed}:
            return wanted
    refusals = {p.name: _refusals(p, resources, snapshot, associations) for p in allowed}
    possible = [partition for partition in allowed if not refusals[partition.name]]
    sure = [p for p in possible if not _doubtful(p, resources, person, associations)]
    if sure:
        return min(sure, key=lambda p: _rank(p, resources, snapshot)).name
    if possible:
        return None if possible[0].default else possible[0].name
    if not allowed:
        return None
    return min(allowed, key=lambda p: (len(refusals[p.name]), *_rank(p, resources, snapshot))).name


def _refusals(
    partition: Partition,
    resources: Resources,
    snapshot: ClusterSnapshot,
    associations: Associations,
) -> list[Objection]:
    """Return why the partition refuses the request, the limits of its QOS and of the associations
    that are bound to it included."""
    reasons = objections_in(partition, resources, snapshot, associations)
    if not associations:
        return reasons
    qos = effective_qos(resources.qos, resources.account, partition.name, associations)
    rows = charged(resources.account, partition.name, associations)
    return reasons + accounting_limits(resources, rows, limiting(snapshot, qos, partition.name))


def _doubtful(
    partition: Partition, resources: Resources, person: Person, associations: Associations
) -> bool:
    """Return True if only Slurm knows whether the partition takes this job of this person."""
    groups = partition.allow_groups and not set(person.groups) & set(partition.allow_groups)
    accounts = associations is None and (partition.allow_accounts or partition.deny_accounts)
    # Slurm gives such a job more CPUs, as well as it can (slurm.conf(5), MaxMemPerCPU).
    most = partition.max_memory_per_cpu
    adjusted = most and (resources.memory or 0) > most * (resources.cpus or 1)
    return bool(groups or accounts or adjusted or partition.hidden)


def _rank(
    partition: Partition, resources: Resources, snapshot: ClusterSnapshot
) -> tuple[bool, bool, bool, bool, bool, float, str]:
    """Return the place of a partition among those that would run a request, the best one first."""
    kinds = kinds_of(partition, snapshot)
    up = sum(kind.usable for kind in kinds if holds(resources, kind.node)) >= resources.nodes
    there = resources.model_copy(update={"partition": partition.name})
    return (
        not up,
        not resources.gpus and any(has_gpus(kind.node) for kind in kinds),
        _preemptable(partition, snapshot),
        not starts_now(there, snapshot, snapshot.taken_at),
        not partition.default,
        -(float("inf") if partition.max_time is None else partition.max_time),
        partition.name,
    )


def _preemptable(partition: Partition, snapshot: ClusterSnapshot) -> bool:
    """Return True if jobs of another partition may push out those of this one."""
    nodes = set(partition.nodes)
    return partition.preemptable and any(
        other.priority_tier > partition.priority_tier and not nodes.isdisjoint(other.nodes)
        for other in snapshot.partitions.values()
    )


def _admits(partition: Partition, accounts: Collection[str]) -> bool:
    allow, deny = partition.allow_accounts, partition.deny_accounts
    # AllowAccounts makes Slurm ignore DenyAccounts.
    return any(name in allow if allow else name not in deny for name in accounts)


def _accounts_words(partition: Partition) -> str:
    if partition.allow_accounts:
        return f"allows only the accounts {', '.join(partition.allow_accounts)}"
    return f"denies the accounts {', '.join(partition.deny_accounts)}"
