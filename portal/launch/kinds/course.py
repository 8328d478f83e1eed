"""A member's own session of a course; the base of the other sessions that courses have.

Which courses may have a session, and the Hub's part in its limits: portal/launch/course.py and
spawners/launch/courses.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, ClassVar, Self
from zoneinfo import ZoneInfo

from ...errors import InvalidRequest
from ...models.catalog.environment import AbsolutePath, Environment
from ...models.course.course import STAFF, Course, CourseState, KeptCourse, Role
from ..course import OPTION, course_named, day, narrowed, server_for, server_of
from ..fields import IN_COURSES
from .kind import AskedFor, Hub, Kind, LaunchFacts, Place

# Where a course with grades has nbgrader's exchange in its sessions.
EXCHANGE = "/srv/nbgrader/exchange"
# The folder in a person's home that has a folder of each course.
FOLDER = "courses"


class CourseSession(Kind):
    """Session of a course. ``data`` is mounted read-only, ``exchange`` at /srv/nbgrader/exchange,
    where everyone in the course writes. ``data_root``: the site's folder that ``data`` is below;
    no step from there is a link. A request itself sets only ``course``.

    ``throwaway``: its home is gone when it ends. ``early``: it may start before the course begins.
    ``starters``: who starts such a session, beside the course's staff. ``about``: a sentence.
    """

    name = "jupyterlab"
    title = "a session of a course"
    option = OPTION
    prefix = "course"
    estimated = False  # its button does not say when it would start
    isolated = True
    bounded = True
    job_kernels = True  # where the course allows them
    about: ClassVar[str] = (
        "Your session of the course. Your work stays in the course's folder in your home."
    )
    throwaway: ClassVar[bool] = False
    early: ClassVar[bool] = False
    graded: ClassVar[bool] = True  # has the course's exchange, where that has grades
    starters: ClassVar[str] = "members"  # "service": what the service starts; "": nobody else

    course: str
    course_title: str = ""
    role: Role | None = None
    data: AbsolutePath | None = None
    data_root: AbsolutePath | None = None
    exchange: AbsolutePath | None = None  # its grades' folder on the nodes

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        course = course_named(options.get(OPTION))
        # The server's name says which of a course's kinds it is.
        return cls(course=course) if course and cls is CourseSession else None

    @classmethod
    def space_at(cls, server: str) -> str | None:
        named = server_of(server)
        return named.course if named is not None and named.kind == cls.prefix else None

    def beside(self, other: Kind) -> InvalidRequest:
        return InvalidRequest(
            f"A course has no separate {other.title}. Open it in the session.", OPTION
        )

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        server_for(self.course, server)
        assert owner is not None and issubclass(owner, CourseSession)
        return owner(course=self.course)

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        try:
            server_for("", server)
        except InvalidRequest as error:
            return error
        return super().not_free(server)

    @property
    def of_course(self) -> str:
        return self.course

    @property
    def folder(self) -> str:
        """Name of the folder that is its home."""
        return self.course

    async def place(self, asked: AskedFor, hub: Hub, facts: LaunchFacts) -> Place:
        return await hub.course(self, asked, facts)

    @classmethod
    def closed(cls, kept: KeptCourse, role: Role, now: float) -> str:
        """Return why no session of this kind starts at ``now`` (Unix seconds); "" if one does.

        The staff may try everything out before the course begins.
        """
        course = kept.course
        title = f"The course '{course.title}'"
        if kept.state is CourseState.ARCHIVED:
            return f"{title} is archived and has no more sessions. Your files are still there."
        if kept.state is CourseState.REFUSED:
            return f"{title} was not approved, so it has no sessions."
        if kept.state is not CourseState.APPROVED:
            return f"{title} has no sessions yet: an admin of the portal must approve it first."
        if kept.pinned is None:
            return f"{title} has no environment yet: its instructor must choose one."
        today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
        if today > course.ends:
            return f"{title} ended on {day(course.ends)}. Your files are still there."
        if today < course.begins and not (role in STAFF or cls.early):
            return f"{title} begins on {day(course.begins)}."
        return ""

    @classmethod
    def check_chosen(cls, asked: AskedFor) -> None:
        """Raise NotAllowed for resources that such a job of a course never has."""

    @classmethod
    def needs_gpus(cls, asked: AskedFor, course: Course) -> bool:
        """Return True if it does not start without GPUs, as once the course's budget is used up."""
        return False

    @classmethod
    def narrowed(
        cls, environment: Environment, course: Course, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        """Return ``environment`` as the course allows it to such sessions; see ``narrowed`` of
        portal/launch/course.py."""
        return narrowed(environment, course, gpus=gpus)

    def options(self, environment: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        # Account, partition and reservation are the course's, and others at the next meeting.
        choices = {key: chosen[key] for key in chosen if key in IN_COURSES}
        return {"environment": environment, **choices, **self.own()}

    def own(self) -> dict[str, Any]:
        return {OPTION: self.course}

    def home(self, account: str, home: str) -> str:
        """Return the home in the container. On the node it is another folder: deploy/session.sh
        makes that and tells Apptainer (APPTAINER_HOME)."""
        return f"/home/{account}"

    def variables(self) -> dict[str, str]:
        return {
            "PORTAL_COURSE": self.course,
            "PORTAL_COURSE_KIND": self.prefix,
            "PORTAL_COURSE_ROLE": str(self.role),
            **({"PORTAL_COURSE_EXCHANGE": EXCHANGE} if self.exchange else {}),
        }

    def script_variables(self, account: str, home: str) -> dict[str, str]:
        """Return the variables of deploy/session.sh. Without PORTAL_COURSE_FOLDER the session's
        home is thrown away. The exchange is not in the command, which is the same for everyone in
        the course."""
        env = {"PORTAL_COURSE_HOME": self.home(account, home)}
        if not self.throwaway:
            env["PORTAL_COURSE_FOLDER"] = f"{home.rstrip('/')}/{FOLDER}/{self.folder}"
        if self.data and self.data_root:
            steps = PurePosixPath(self.data).relative_to(self.data_root)
            env |= {"PORTAL_COURSE_DATA_ROOT": self.data_root, "PORTAL_COURSE_DATA": str(steps)}
        if self.exchange:
            env["PORTAL_COURSE_BIND"] = f"{self.exchange}:{EXCHANGE}"
        return env
