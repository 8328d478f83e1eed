"""Who is there: what a member's session says of itself, and hands that are up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.models import Frozen
from portal.models.course.course import Login
from portal.models.course.live import Presence
from portal.models.session.session import SessionRecord

KINDS = ("course", "rehearsal", "preview", "room")
_MOST = 50  # notebooks
_MOST_PEOPLE = 1000
Age = Annotated[float, Field(ge=0, le=10 * 365 * 86400)]
_Path = Annotated[str, StringConstraints(max_length=500)]


class PresenceReport(Frozen):
    """What a session says: seconds since its owner first had it in a browser, and since something
    was done in it, None for never; paths of the notebooks that are open; who has a room open."""

    opened: Age | None = None
    activity: Age | None = None
    notebooks: Annotated[Sequence[_Path], Field(max_length=_MOST)] = ()
    people: Annotated[Sequence[Login], Field(max_length=_MOST_PEOPLE)] = ()


def kind_of(record: SessionRecord) -> str:
    """What a session of a course is for, by the name of its server; "" for one of no course."""
    for kind in KINDS:
        if record.course and record.server == f"{kind}-{record.course}":
            return kind
    return ""


def presence_of(record: SessionRecord, report: PresenceReport, now: float) -> Presence:
    """What is to be kept of a report that came at ``now``, in Unix seconds."""
    return Presence(
        course=record.course,
        person=record.user,
        session_id=record.id,
        seen_at=now,
        opened_at=None if report.opened is None else now - report.opened,
        last_activity=None if report.activity is None else now - report.activity,
        notebooks=tuple(_readable(path) for path in report.notebooks),
    )


def raised(record: SessionRecord, text: str, now: float) -> Presence:
    """A hand that goes up at ``now``."""
    return _bare(record, now).model_copy(update={"hand": text, "hand_at": now})


def lowered(record: SessionRecord, now: float) -> Presence:
    """A hand that goes down at ``now``."""
    return _bare(record, now)


def _bare(record: SessionRecord, now: float) -> Presence:
    return Presence(course=record.course, person=record.user, session_id=record.id, seen_at=now)


def _readable(path: str) -> str:
    """A file's name may be anything; staff see it as text."""
    return "".join(letter if letter.isprintable() else "�" for letter in path)
