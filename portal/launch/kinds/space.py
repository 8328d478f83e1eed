"""Space of a session: the course that it belongs to, as its job sees it."""

from __future__ import annotations

from pathlib import PurePosixPath

from ...models import Frozen
from ...models.catalog.environment import AbsolutePath
from ...models.course.course import Role

# Where a course with grades has nbgrader's exchange in its sessions.
EXCHANGE = "/srv/nbgrader/exchange"
# The folder in a person's home that has a folder of each course.
FOLDER = "courses"


class Space(Frozen):
    """Course ``name`` of a session. A request itself sets only that. Nothing of the site is seen in
    its sessions but what its environment binds.

    Which courses may have a session, and the Hub's part in its limits: portal/launch/course.py and
    spawners/launch/courses.py.
    """

    name: str
    title: str = ""
    role: Role | None = None
    data: AbsolutePath | None = None  # mounted read-only
    data_root: AbsolutePath | None = None  # the site's folder of ``data``: no step below is a link
    exchange: AbsolutePath | None = None  # its grades' folder on the nodes, seen at EXCHANGE

    def home(self, account: str) -> str:
        """Return the home in the container. On the node it is another folder: deploy/session.sh
        makes that and tells Apptainer (APPTAINER_HOME)."""
        return f"/home/{account}"

    def variables(self, kind: str) -> dict[str, str]:
        """Return the session's environment variables; ``kind``: its purpose in the course."""
        return {
            "PORTAL_COURSE": self.name,
            "PORTAL_COURSE_KIND": kind,
            "PORTAL_COURSE_ROLE": str(self.role),
            **({"PORTAL_COURSE_EXCHANGE": EXCHANGE} if self.exchange else {}),
        }

    def script_variables(self, account: str, home: str, folder: str) -> dict[str, str]:
        """Return the variables of deploy/session.sh. ``folder`` of the course's folders in the
        user's ``home``; "": the session's home is thrown away. The exchange is not in the command,
        which is the same for everyone in the course."""
        env = {"PORTAL_COURSE_HOME": self.home(account)}
        if folder:
            env["PORTAL_COURSE_FOLDER"] = f"{home.rstrip('/')}/{FOLDER}/{folder}"
        if self.data and self.data_root:
            steps = PurePosixPath(self.data).relative_to(self.data_root)
            env |= {"PORTAL_COURSE_DATA_ROOT": self.data_root, "PORTAL_COURSE_DATA": str(steps)}
        if self.exchange:
            env["PORTAL_COURSE_BIND"] = f"{self.exchange}:{EXCHANGE}"
        return env
