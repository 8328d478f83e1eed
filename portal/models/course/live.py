"""Live data of a course's sessions: presence, raised hands, help, messages, files."""

from __future__ import annotations

from .. import Frozen
from ..help import HelpState as HelpState
from ..help import SpaceHelp


class Activity(Frozen):
    """Activity in a member's session, as reported by itself. Times are Unix seconds.

    ``opened_at``: time at which its owner first opened it in a browser; ``notebooks``: paths of
    the open ones. ``hand``: the student's question, since ``hand_at``. ``handout``: the revision
    in its folder.
    """

    opened_at: float | None = None
    last_activity: float | None = None
    notebooks: tuple[str, ...] = ()
    hand: str = ""
    hand_at: float | None = None
    handout: str = ""
    handout_message: str = ""


class Presence(Activity):
    """Last report of a member's session, at ``seen_at``."""

    course: str
    person: str
    session_id: str
    seen_at: float


class CourseRecord(Frozen):
    """Record of a course, numbered by the database: made ``by`` a person ``at`` a time."""

    id: int = 0
    course: str
    by: str
    at: float


class CourseMessage(CourseRecord):
    """Message to everyone in a course, shown in JupyterLab until ``ends_at``. Plain text."""

    text: str
    ends_at: float


class Help(SpaceHelp):
    """Help as stored, in a space of any type."""

    course: str

    @property
    def space(self) -> str:
        return self.course


class Collect(CourseRecord):
    """Folder that is collected from everyone; ``closed_at``: time since which nothing is taken."""

    folder: str
    closed_at: float | None = None


class Collected(Frozen):
    """Files that one person's session gave. ``size`` in bytes; ``message``: why there are none."""

    collect_id: int
    person: str
    at: float
    files: int = 0
    size: int = 0
    message: str = ""


class HandoutRevision(CourseRecord):
    """Revision of a course's handouts; ``revision`` is the commit's id in git."""

    revision: str
    message: str = ""


class CourseSituation(Frozen):
    """Status of its course for a session (Situation.course). ``kind``: "course", "rehearsal",
    "preview" or "room". ``handout``: revision that its folder should have; "": none. ``collects``:
    open collections to which it has given nothing yet."""

    name: str
    title: str
    kind: str
    role: str
    messages: tuple[CourseMessage, ...] = ()
    help: tuple[Help, ...] = ()  # requested or granted for this session
    help_policy: str = "ask"
    hand: str = ""
    handout: str = ""
    collects: tuple[Collect, ...] = ()
