"""Projects as spaces of sessions: their option, and what jobs see."""

from __future__ import annotations

from typing import Self

from pydantic import TypeAdapter, ValidationError

from portal.errors import InvalidRequest
from portal.models.catalog.environment import AbsolutePath
from portal.models.space import SpaceName
from portal.spaces.job_space import JobSpace

OPTION = "project"  # the key of ``user_options`` with the project's name
_NAME: TypeAdapter[str] = TypeAdapter(SpaceName)
_LAB = "jupyterlab"  # the kind of a member's own session


class ProjectSpace(JobSpace):
    """Project of a session, which is its user's own in everything else: its name is free, and it
    sees the home. ``folder``: of the project, None without one."""

    noun = option = OPTION
    offered = True
    more_choices = frozenset({"partition", "qos", "constraint"})
    launch = "spawners.launch.projects:ProjectLaunch"

    folder: AbsolutePath | None = None

    @classmethod
    def named(cls, value: object) -> Self | None:
        if value is None or value == "":
            return None
        try:
            return cls(name=_NAME.validate_python(value))
        except ValidationError:
            raise InvalidRequest(
                "'project' must be the name of a project: lowercase letters, digits and dashes.",
                OPTION,
            ) from None

    def variables(self, work: str) -> dict[str, str]:
        """Return the variables of its sessions. JupyterLab shows the folder; its process does not
        run there, so that it reads no configuration from it."""
        env = {"PORTAL_PROJECT": self.name, "PORTAL_PROJECT_ROLE": str(self.role)}
        if self.folder:
            env["PORTAL_PROJECT_FOLDER"] = self.folder
            if work == _LAB:
                env["JUPYTERHUB_ROOT_DIR"] = self.folder
        return env
