"""What Slurm reserves for a course's meetings."""

from __future__ import annotations

from datetime import UTC, datetime


def reservation_name(course: str, begins: float) -> str:
    """Slurm's name of the reservation for the meeting of ``course`` that begins then (Unix
    seconds): "course-dl101-20261123T0800", in UTC."""
    return f"course-{course}-{datetime.fromtimestamp(begins, UTC):%Y%m%dT%H%M}"
