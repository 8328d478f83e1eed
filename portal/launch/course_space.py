"""Courses as spaces of sessions: their option, the names of their servers, and what jobs see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Self

from ..errors import InvalidRequest
from ..models.catalog.environment import AbsolutePath, Environment
from ..models.cluster.cluster import Association, ClusterSnapshot
from ..models.course.course import group_of
from ..models.person import Person
from ..models.space import STAFF, Role
from ..spaces.job_space import JobSpace, Reserved
from . import course
from .course import CourseKind, course_kind, course_named, parsed_server
from .course_meeting import at_the_meeting

# Where a course with grades has nbgrader's exchange in its sessions.
EXCHANGE = "/srv/nbgrader/exchange"
# The folder in a person's home that has a folder of each course.
FOLDER = "courses"
_LAB = "jupyterlab"  # the kind of a member's own session


def purpose_of(work: str) -> str:
    """Return the purpose of a kind in a course: its name, but "course" for a member's own."""
    return str(CourseKind.COURSE) if work == _LAB else work


class CourseSpace(JobSpace):
    """Course of a session. Nothing of the site is seen in it but what its environment binds."""

    noun = "course"
    option = course.OPTION
    group_prefix = group_of("")
    isolated = True
    estimated = False  # its page is a button
    launch = "spawners.launch.courses:CourseLaunch"

    data: AbsolutePath | None = None  # mounted read-only
    data_root: AbsolutePath | None = None  # the site's folder of ``data``: no step below is a link
    exchange: AbsolutePath | None = None  # its grades' folder on the nodes, seen at EXCHANGE

    @classmethod
    def named(cls, value: object) -> Self | None:
        name = course_named(value)
        return cls(name=name) if name else None

    @classmethod
    def reserves(cls, server: str) -> Reserved | None:
        named = parsed_server(server)
        if named is None:
            return None
        return Reserved(named.course, _LAB if named.kind is CourseKind.COURSE else str(named.kind))

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        try:
            course_kind("", server)
        except InvalidRequest as error:
            return error
        return super().not_free(server)

    def check_server(self, server: str) -> None:
        course_kind(self.name, server)

    @classmethod
    def may_help(cls, helper: Role | None, owner: Role | None) -> bool:
        return helper in STAFF and owner is Role.STUDENT

    @property
    def server(self) -> str:
        return f"course-{self.name}"

    @classmethod
    def unfit(cls, environment: Environment) -> str:
        return course.unfit(environment)

    @classmethod
    def now(
        cls,
        name: str,
        environment: Environment,
        snapshot: ClusterSnapshot,
        person: Person,
        associations: Sequence[Association] | None,
        now: float,
        *,
        needs_gpus: bool = False,
    ) -> Environment:
        """Return ``environment`` in the reservation of a meeting that is on."""
        return at_the_meeting(
            name, environment, snapshot, person, associations, now, needs_gpus=needs_gpus
        )

    def home(self, account: str, home: str) -> str:
        """Return the home in the container. On the node it is another folder: deploy/session.sh
        makes that and tells Apptainer (APPTAINER_HOME)."""
        return f"/home/{account}"

    def variables(self, work: str) -> dict[str, str]:
        return {
            "PORTAL_COURSE": self.name,
            "PORTAL_COURSE_KIND": purpose_of(work),
            "PORTAL_COURSE_ROLE": str(self.role),
            **({"PORTAL_COURSE_EXCHANGE": EXCHANGE} if self.exchange else {}),
        }

    def script_variables(self, account: str, home: str, folder: str) -> dict[str, str]:
        """Return the variables of deploy/session.sh. The exchange is not in the command, which is
        the same for everyone in the course."""
        env = {"PORTAL_COURSE_HOME": self.home(account, home)}
        if folder:
            env["PORTAL_COURSE_FOLDER"] = f"{home.rstrip('/')}/{FOLDER}/{folder}"
        if self.data and self.data_root:
            steps = PurePosixPath(self.data).relative_to(self.data_root)
            env |= {"PORTAL_COURSE_DATA_ROOT": self.data_root, "PORTAL_COURSE_DATA": str(steps)}
        if self.exchange:
            env["PORTAL_COURSE_BIND"] = f"{self.exchange}:{EXCHANGE}"
        return env
