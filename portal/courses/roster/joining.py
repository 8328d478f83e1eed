"""Who has joined a course, before others may start GPU sessions as them. Pure.

A job is charged to its owner, or to the course's own Slurm account. Being on a roster is its
instructor's doing; who has opened the course's session or pressed Join has agreed themselves.
"""

from __future__ import annotations

from portal.errors import Conflict
from portal.models.course.course import Course, CourseMember

_WAY = (
    "they open the course's page and press Join, or an admin gives the course a Slurm account of "
    "its own."
)
NOT_JOINED = f"Has not joined yet: {_WAY}"


def refusal(person: str) -> Conflict:
    """Return the error for who would start the session of ``person``."""
    return Conflict(f"{person} has not joined the course yet: {_WAY}")


def takes_joining(course: Course) -> bool:
    """Return whether only who has joined may be given a session by others: it has GPUs, and no
    account of the course's is charged for them."""
    return course.default.gpus > 0 and not (course.account or course.default.account)


def not_joined(course: Course, member: CourseMember) -> bool:
    """Return whether nobody else may start this member's session."""
    return member.joined_at is None and takes_joining(course)
