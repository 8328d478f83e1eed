"""Policy: may this person ask for this, on this cluster, now? Reasons, not booleans.

Slurm has the last word: only what can be said clearly before submission is checked here. A limit
that is not known (no accounting, nothing of it in the snapshot) is left to Slurm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ..errors import NotAllowed
from ..models.catalog.environment import Environment, refusals_of
from ..models.cluster.cluster import Association, ClusterSnapshot, Node, Reservation
from ..models.person import Person
from ..models.session.resources import Resources
from .fields import Objection
from .kinds.kind import Kind, environment_of
from .limits.limits import (
    accounting_limits,
    environment_limits,
    suits,
    within,
)
from .limits.qos import charged, effective_qos, limiting
from .partitions import Associations, choose_partition, named_partition, objections_in
from .request import Asked, LaunchRequest


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
    usual = {**defaults.given(), **environment.default.given()}
    merged = {**within(environment, usual), **asked.resources.given()}
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
    return LaunchRequest(
        environment=environment,
        resources=resources,
        kind=kind,
        partition_automatic=asked.resources.partition is None,
    )


def _freest(gpu_types: Sequence[str], nodes: Sequence[Node]) -> str:
    """Return the type with the most free GPUs on usable nodes now, nodes that are switched on
    before others; the first type if none is free."""
    free, asleep = dict.fromkeys(gpu_types, 0), dict.fromkeys(gpu_types, 0)
    for node in nodes:
        counts = asleep if node.asleep else free
        for pool in node.gpus:
            if pool.type in free and node.usable:
                counts[pool.type] += pool.count - pool.used
    return max(free, key=lambda name: (free[name], asleep[name]))


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
    partition = named_partition(resources.partition, person, snapshot, associations)
    if associations is not None:
        refused = _accounting(resources, person, associations)
        qos = effective_qos(resources.qos, resources.account, resources.partition, associations)
        rows = charged(resources.account, resources.partition, associations)
        limits = limiting(snapshot, qos, resources.partition)
        reasons += refused or accounting_limits(resources, rows, limits)
    if partition is not None:
        reasons += objections_in(partition, resources, snapshot, associations)
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
    usable = reservation and usable_reservation(reservation, person, associations)
    # Groups of a reservation may be those of Slurm's machine alone: Slurm decides.
    by_group = reservation and reservation.groups and reservation.end_time > time.time()
    if not usable and not by_group:
        return [Objection(f"No reservation '{name}' is available to you.", "reservation")]
    return []
