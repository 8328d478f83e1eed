"""Consent of a course's members, before others may start GPU sessions as them. Pure.

A job is charged to its owner, or to the course's own Slurm account. The roster is the instructor's
doing; people consent by opening the course's session or pressing Join.
"""

from __future__ import annotations

from portal.errors import Conflict
from portal.models.course.course import Course
from portal.models.space import Member

_WAY = (
    "They can press Join on the course's page, or an admin can give the course its own Slurm "
    "account."
)
NOT_JOINED = f"Has not joined yet. {_WAY}"


def refusal(person: str) -> Conflict:
    """Return the error for an attempt to start a session as ``person``."""
    return Conflict(f"{person} has not joined the course yet. {_WAY}")


def takes_joining(course: Course) -> bool:
    """Return True if only people who have joined may be given a session by others: it has GPUs,
    and no account of the course's is charged for them."""
    return course.default.gpus > 0 and not (course.account or course.default.account)


def not_joined(course: Course, member: Member) -> bool:
    """Return True if nobody else may start this member's session."""
    return member.joined_at is None and takes_joining(course)
