"""What goes on in the sessions of a course: who is there, raised hands, help, messages, work."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


class Presence(Frozen):
    """What a member's session last told of itself. Times are Unix seconds.

    ``opened_at``: when its owner first had it in a browser; ``notebooks``: paths of those open.
    ``hand``: what the student asks, since ``hand_at``. ``handout``: the revision in its folder.
    """

    course: str
    person: str
    session_id: str
    seen_at: float
    opened_at: float | None = None
    last_activity: float | None = None
    notebooks: tuple[str, ...] = ()
    hand: str = ""
    hand_at: float | None = None
    handout: str = ""
    handout_message: str = ""


class CourseMessage(Frozen):
    """A message to everyone in a course, shown in Lab until ``ends_at``. Plain text."""

    id: int = 0
    course: str
    text: str
    by: str
    at: float
    ends_at: float


class HelpState(StrEnum):
    """How far it is with helping somebody in their session."""

    ASKED = "asked"
    GRANTED = "granted"
    REFUSED = "refused"
    ENDED = "ended"


class Help(Frozen):
    """A member of the staff in a student's session. ``server`` is the Hub's name of it.

    ``until``: when it ends by itself; set when it is granted, ``minutes`` after that.
    """

    id: int = 0
    course: str
    student: str
    server: str
    session_id: str
    helper: str
    state: HelpState
    minutes: int
    asked_at: float
    granted_at: float | None = None
    until: float | None = None
    ended_at: float | None = None
    ended_by: str = ""


class Collect(Frozen):
    """A folder that is collected from everyone; ``closed_at``: nothing more is taken."""

    id: int = 0
    course: str
    folder: str
    by: str
    at: float
    closed_at: float | None = None


class Collected(Frozen):
    """What one person's session gave. ``size`` in bytes; ``message`` says why there is nothing."""

    collect_id: int
    person: str
    at: float
    files: int = 0
    size: int = 0
    message: str = ""


class HandoutRevision(Frozen):
    """One state of a course's handouts; ``revision`` is git's name of the commit."""

    id: int = 0
    course: str
    revision: str
    by: str
    at: float
    message: str = ""


class CourseSituation(Frozen):
    """What a session of a course is told (Situation.course). ``kind``: "course", "rehearsal",
    "preview" or "room". ``handout``: the revision that its folder should have; "" where there is
    nothing. ``collects``: those open for which it has given nothing yet."""

    name: str
    title: str
    kind: str
    role: str
    messages: tuple[CourseMessage, ...] = ()
    help: tuple[Help, ...] = ()  # asked and granted ones of this session
    help_policy: str = "ask"
    hand: str = ""
    handout: str = ""
    collects: tuple[Collect, ...] = ()
