"""The reservation wanted for a meeting of a course, and how the one in Slurm differs from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from portal.models.cluster.cluster import Reservation
from portal.models.course.course import StoredCourse
from portal.models.course.start import StoredReservation
from portal.slurm.control.reservations import DesiredReservation, GpusNotReservable

from ..definition.calendar import Meeting

_NAMED = 10  # people, or nodes, in a sentence


def reservation_name(course: str, begins: float) -> str:
    """Return Slurm's name of the reservation for the meeting of ``course`` at ``begins`` (Unix
    seconds): "course-dl101-20261123T0800", in UTC."""
    return f"course-{course}-{datetime.fromtimestamp(begins, UTC):%Y%m%dT%H%M}"


@dataclass(frozen=True)
class Plan:
    """Reservation wanted for a meeting; ``notes`` say who cannot be in it."""

    stored: StoredCourse
    meeting: Meeting
    wanted: DesiredReservation
    notes: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        return json.dumps(asdict(self.wanted), sort_keys=True)


def reserves(stored: StoredCourse) -> bool:
    """Return True if the course reserves anything for its meetings."""
    return bool(stored.course.reservation.nodes or stored.course.reservation.gpus)


def must_be_made_anew(row: StoredReservation, plan: Plan, held: Reservation) -> bool:
    """Check whether an update is not enough: it changes the partition's name but keeps its nodes
    (22.05), and of other GPUs it says "updated" and changes nothing (24.11, 26.05)."""
    wanted, asked = plan.wanted, json.loads(row.spec) if row.spec else {}
    if str(asked.get("partition", wanted.partition)) != wanted.partition:
        return True
    if held.gpus:
        fewer = bool(wanted.gpus) and asked.get("nodes", wanted.nodes) != wanted.nodes
        return other_gpus(held, wanted) or fewer
    before = asked.get("gpus", wanted.gpus), asked.get("gpu_type", wanted.gpu_type)
    return bool(wanted.gpus) and not wanted.nodes and before != (wanted.gpus, wanted.gpu_type)


def other_gpus(held: Reservation, wanted: DesiredReservation) -> bool:
    """Check whether a reservation that counts GPUs counts others than are wanted."""
    other = bool(wanted.gpus and wanted.gpu_type and held.gpu_type != wanted.gpu_type)
    return bool(held.gpus) and (held.gpus != wanted.gpus or other)


def nodes_alone(plan: Plan, error: GpusNotReservable) -> str:
    """Return a note for a course that asked for GPUs and gets nodes; "" if it asked for nodes."""
    asked = plan.stored.course.reservation.gpus
    return f"Only nodes are reserved. {error.message}" if asked else ""


def some(names: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
