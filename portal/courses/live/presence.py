"""Presence: what a member's session reports of itself, and raised hands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.launch.kinds import kind_of
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.models import Frozen
from portal.models.course.live import Presence
from portal.models.session.session import SessionRecord
from portal.models.space import Login
from portal.work.course.kind import Room

_MOST = 50  # notebooks
_MOST_PEOPLE = 1000
Age = Annotated[float, Field(ge=0, le=10 * 365 * 86400)]
_Path = Annotated[str, StringConstraints(max_length=500)]


class PresenceReport(Frozen):
    """Report of a session: seconds since its owner first had it in a browser, and since something
    was done in it (None: never); paths of the open notebooks; people who have a room open."""

    opened: Age | None = None
    activity: Age | None = None
    notebooks: Annotated[Sequence[_Path], Field(max_length=_MOST)] = ()
    people: Annotated[Sequence[Login], Field(max_length=_MOST_PEOPLE)] = ()


def is_present(record: SessionRecord) -> bool:
    """Return True if a session is a course's, and has a page."""
    return bool(record.space) and kind_of(record).serves


def is_own(record: SessionRecord) -> bool:
    """Return True if a session is a member's own session of a course."""
    return bool(record.space) and record.work == JupyterLab.name


def is_room(record: SessionRecord) -> bool:
    """Return True if a session is a course's room."""
    return bool(record.space) and record.work == Room.name


def presence_of(record: SessionRecord, report: PresenceReport, now: float) -> Presence:
    """Return the presence to store for a report that came at ``now``, in Unix seconds."""
    return Presence(
        course=record.space,
        person=record.user,
        session_id=record.id,
        seen_at=now,
        opened_at=None if report.opened is None else now - report.opened,
        last_activity=None if report.activity is None else now - report.activity,
        notebooks=tuple(_readable(path) for path in report.notebooks),
    )


def raised(record: SessionRecord, text: str, now: float) -> Presence:
    """Return the presence with a hand raised at ``now``."""
    return _bare(record, now).model_copy(update={"hand": text, "hand_at": now})


def lowered(record: SessionRecord, now: float) -> Presence:
    """Return the presence with the hand lowered at ``now``."""
    return _bare(record, now)


def _bare(record: SessionRecord, now: float) -> Presence:
    return Presence(course=record.space, person=record.user, session_id=record.id, seen_at=now)


def _readable(path: str) -> str:
    """Return a path, which may be any text, with unprintable characters replaced for staff."""
    return "".join(letter if letter.isprintable() else "�" for letter in path)
