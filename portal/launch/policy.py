"""Policy: may this person ask for this, on this cluster, now? Reasons, not booleans.

Slurm has the last word: only what can be said clearly before submission is checked here. A limit
that is not known (no accounting, nothing of it in the snapshot) is left to Slurm.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ..errors import InvalidRequest, NotAllowed
from ..models.catalog.environment import Environment
from ..models.catalog.offered import refusals_of
from ..models.cluster.cluster import Association, ClusterSnapshot, Node, Partition, Reservation
from ..models.person import Person
from ..models.session.resources import Resources
from .fields import Objection
from .kinds.kind import Kind, environment_of
from .limits.limits import (
    accounting_limits,
    environment_limits,
    has_gpus,
    nodes_of,
    partition_limits,
    suits,
    within,
)
from .limits.qos import admits_qos, charged, effective_qos, limiting
from .request import Asked, LaunchRequest

Associations = Sequence[Association] | None  # None: the site keeps no accounting


def decide(
    asked: Asked,
    person: Person,
    environments: Mapping[str, Environment],
    snapshot: ClusterSnapshot,
    associations: Associations,
    defaults: Resources,
    kind: Kind | None = None,
) -> LaunchRequest:
    """Return the launch request that ``asked`` stands for. ``kind``: what it asks for, complete
    (``Kind.place``); None: as it was asked for.

    ``environments`` are those this person may use, by name, in page order. What is not asked for
    comes from the environment's defaults, then from the site's ``defaults``. Raises InvalidRequest
    (unknown name) or NotAllowed (all reasons in one message).
    """
    environment = environment_of(asked.environment, environments)
    usual = {**defaults.said(), **environment.default.said()}
    merged = {**within(environment, usual), **asked.resources.said()}
    if merged.get("gpus", 0) == 0:
        merged.pop("gpu_type", None)
    elif not merged.get("gpu_type"):
        # "Any type" means any that this environment runs on; Slurm takes one name only, or none,
        # which is better where each would do: the job gets what is free first.
        wanted = Resources(**{key: merged[key] for key in merged if key != "gpu_type"})
        nodes = [node for node in snapshot.nodes.values() if suits(wanted, node)]
        types = {pool.type for node in nodes for pool in node.gpus}
        refused = refusals_of(environment)
        own = [name for name in environment.gpu_types if name in types] or environment.gpu_types
        fitting = own or sorted(types - set(refused))
        if fitting and (types - set(fitting)):
            merged["gpu_type"] = _freest(fitting, nodes)
    if merged.get("partition") is None:
        merged["partition"] = choose_partition(Resources(**merged), person, snapshot, associations)
    resources = Resources(**merged)
    reasons = objections(resources, environment, person, snapshot, associations)
    if reasons:
        raise NotAllowed(" ".join(reasons), reasons[0].field)
    kind = (kind or asked.kind).within(resources.time)
    return LaunchRequest(environment=environment, resources=resources, kind=kind)


def _freest(gpu_types: Sequence[str], nodes: Sequence[Node]) -> str:
    """Return the type with the most free GPUs on usable nodes now; the first if none is free."""
    free = dict.fromkeys(gpu_types, 0)
    for node in nodes:
        for pool in node.gpus:
            if pool.type in free and node.usable:
                free[pool.type] += pool.count - pool.used
    return max(free, key=lambda name: free[name])


def allowed_partitions(
    person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> list[Partition]:
    """Return the partitions that are up and open to this person, the default one first."""
    accounts = None if associations is None else {row.account for row in associations}
    qos = {name for row in associations or () for name in row.qos}
    result = []
    for partition in snapshot.partitions.values():
        if partition.state != "UP":
            continue
        if accounts is not None and not _admits(
            accounts, partition.allow_accounts, partition.deny_accounts
        ):
            continue
        if qos and not any(admits_qos(partition, name) for name in qos):
            continue
        bound = {row.partition for row in associations or ()}
        if bound and "" not in bound and partition.name not in bound:
            continue
        if partition.allow_groups and person.groups and not person.admin:
            # Unix groups: only conclusive when the directory gave them under the same names.
            known = set(person.groups) & set(partition.allow_groups)
            if not known:
                continue
        result.append(partition)
    return sorted(result, key=lambda p: (not p.default, p.name))


def _admits(names: Collection[str], allow: Collection[str], deny: Collection[str]) -> bool:
    usable = [name for name in names if name not in deny]
    return any(not allow or name in allow for name in usable)


def choose_partition(
    resources: Resources,
    person: Person,
    snapshot: ClusterSnapshot,
    associations: Associations,
) -> str | None:
    """Return a partition that can serve ``resources``: with GPUs for GPU sessions, without for CPU
    sessions if possible. None leaves the choice to Slurm."""
    partitions = allowed_partitions(person, snapshot, associations)

    def admitted(partition: Partition) -> bool:
        qos = effective_qos(resources.qos, resources.account, partition.name, associations)
        return qos is None or admits_qos(partition, qos)

    # Where none takes the QOS, the refusal says so.
    partitions = [p for p in partitions if admitted(p)] or partitions
    if resources.reservation in snapshot.reservations:
        wanted = snapshot.reservations[resources.reservation or ""].partition
        if wanted and wanted in {p.name for p in partitions}:
            return wanted
    fitting = [p for p in partitions if any(suits(resources, n) for n in nodes_of(p, snapshot))]
    if not resources.gpus:
        partitions = fitting or partitions
        fitting = [p for p in partitions if not any(map(has_gpus, nodes_of(p, snapshot)))]
    chosen = (fitting or partitions)[:1]
    return chosen[0].name if chosen else None


def objections(
    resources: Resources,
    environment: Environment,
    person: Person,
    snapshot: ClusterSnapshot,
    associations: Associations,
) -> list[Objection]:
    """Return every reason why this cannot be asked for; an empty list if it can.

    Raises InvalidRequest for a name that this cluster does not have.
    """
    reasons = environment_limits(resources, environment)
    qos = effective_qos(resources.qos, resources.account, resources.partition, associations)
    partition = _named_partition(resources, person, snapshot, associations)
    if associations is not None:
        refused = _accounting(resources, person, associations)
        rows = charged(resources.account, resources.partition, associations)
        limits = limiting(snapshot, qos, resources.partition)
        reasons += refused or accounting_limits(resources, rows, limits)
    if partition is not None:
        if qos and not admits_qos(partition, qos):
            takes = f" Allowed: {', '.join(partition.allow_qos)}." if partition.allow_qos else ""
            where = f"the partition '{partition.name}'"
            reasons.append(Objection(f"The QOS '{qos}' is not allowed in {where}.{takes}", "qos"))
        flags = snapshot.qos[qos].flags if qos in snapshot.qos else ()
        reasons += partition_limits(resources, partition, snapshot, flags)
    if resources.reservation:
        reasons += _reservation(resources.reservation, person, snapshot, associations)
    return reasons


def _accounting(
    resources: Resources, person: Person, associations: Sequence[Association]
) -> list[Objection]:
    if not associations:
        none = f"'{person.name}' has no Slurm account on this cluster. Ask an admin to add one."
        return [Objection(none, "account")]
    rows = list(associations)
    if resources.account:
        rows = [row for row in rows if row.account == resources.account]
        if not rows:
            yours = ", ".join(sorted({row.account for row in associations}))
            refused = f"You cannot use the account '{resources.account}'. Your accounts: {yours}."
            return [Objection(refused, "account")]
    if resources.qos:
        qos = sorted({name for row in rows for name in row.qos})
        if resources.qos not in qos:
            qos_names = ", ".join(qos)
            refused = f"The QOS '{resources.qos}' is not available to you. Available: {qos_names}."
            return [Objection(refused, "qos")]
    return []


def _named_partition(
    resources: Resources, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> Partition | None:
    if resources.partition is None:
        return None
    if resources.partition not in snapshot.partitions:
        names = ", ".join(p.name for p in allowed_partitions(person, snapshot, associations))
        raise InvalidRequest(
            f"This cluster has no partition '{resources.partition}'. Available: {names}.",
            "partition",
        )
    partition = snapshot.partitions[resources.partition]
    allowed = allowed_partitions(person, snapshot, associations)
    if partition not in allowed:
        names = ", ".join(p.name for p in allowed) or "none"
        raise NotAllowed(
            f"The partition '{partition.name}' is not available to you. Available: {names}.",
            "partition",
        )
    return partition


def usable_reservation(
    reservation: Reservation, person: Person, associations: Associations
) -> bool:
    """Return True if a person is in a reservation (by user, account, group) that is not over."""
    if reservation.end_time <= time.time():
        return False
    accounts = {row.account for row in associations or ()}
    return bool(
        person.name in reservation.users
        or accounts & set(reservation.accounts)
        or set(person.groups) & set(reservation.groups)
    )


def _reservation(
    name: str, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> list[Objection]:
    reservation = snapshot.reservations.get(name)
    if reservation is None or not usable_reservation(reservation, person, associations):
        return [Objection(f"No reservation '{name}' is available to you.", "reservation")]
    return []
