"""Meeting of a course that is on: its sessions run in the meeting's reservation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..models.catalog.environment import Environment
from ..models.cluster.cluster import Association, Reservation
from ..models.person import Person
from .course import bound, meeting, until
from .policy import usable_reservation


def at_the_meeting(
    course: str,
    environment: Environment,
    reservations: Mapping[str, Reservation],
    person: Person,
    associations: Sequence[Association] | None,
    now: float,
) -> Environment:
    """Return ``environment`` in the reservation of a meeting that is on ``now`` (Unix seconds),
    and not longer than that if Slurm would end its jobs."""
    for reservation in meeting(course, reservations, now):
        if usable_reservation(reservation, person, associations):
            usual = environment.default.model_copy(update={"reservation": reservation.name})
            inside = environment.model_copy(update={"default": usual})
            return until(inside, reservation.end_time - now) if bound(reservation) else inside
    return environment
