"""Meeting of a course that is on: its sessions run in the meeting's reservation. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..models.catalog.environment import Environment
from ..models.cluster.cluster import Association, ClusterSnapshot, Reservation
from ..models.person import Person
from ..spaces.limits import until
from .course import bound, meeting
from .limits.limits import has_gpus
from .policy import usable_reservation


def at_the_meeting(
    course: str,
    environment: Environment,
    snapshot: ClusterSnapshot,
    person: Person,
    associations: Sequence[Association] | None,
    now: float,
    *,
    needs_gpus: bool = False,
) -> Environment:
    """Return ``environment`` in the reservation of a meeting that is on ``now`` (Unix seconds),
    and not longer than that if Slurm would end its jobs. ``needs_gpus``: it runs elsewhere, and no
    longer, if the reserved nodes have no GPUs, since sessions can be on CPUs and their kernels
    not."""
    for reservation in meeting(course, snapshot.reservations, now):
        if usable_reservation(reservation, person, associations):
            inside = environment
            if not needs_gpus or _has_gpus(reservation, snapshot):
                usual = environment.default.model_copy(update={"reservation": reservation.name})
                inside = environment.model_copy(update={"default": usual})
            return until(inside, reservation.end_time - now) if bound(reservation) else inside
    return environment


def _has_gpus(reservation: Reservation, snapshot: ClusterSnapshot) -> bool:
    nodes = (snapshot.nodes.get(name) for name in reservation.nodes)
    return any(node is not None and has_gpus(node) for node in nodes)
