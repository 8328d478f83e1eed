"""Projects as spaces of sessions: their option, and what jobs see."""

from __future__ import annotations

import re
from typing import Self

from pydantic import TypeAdapter, ValidationError

from portal.errors import InvalidRequest
from portal.models.catalog.environment import AbsolutePath
from portal.models.space import Role, SpaceName
from portal.spaces.job_space import JobSpace

from .models import WORKERS

OPTION = "project"  # the key of ``user_options`` with the project's name
_NAME: TypeAdapter[str] = TypeAdapter(SpaceName)
_LAB = "jupyterlab"  # the kind of a member's own session
# Reasons of a job that waits for time of its account or QOS (GrpTRESMins: AssocGrpGRESMinutes,
# AssocGrpCPUMinutesLimit; not what runs at one time), and the words of a refusal.
_LIMIT = re.compile(r"\b(Assoc|QOS)Grp\w*(?<!Run)Minutes(Limit)?\b|accounting/QOS policy")


def way_out(title: str, said: str) -> str:
    """Return what a member of the project can do about a limit of Slurm; see JobSpace.way_out."""
    if not _LIMIT.search(said):
        return ""
    return (
        f"It is charged to the account of the project '{title}'. Request fewer GPUs or a shorter "
        "time, ask an owner of the project for more, or stop it and launch it for yourself."
    )


class ProjectSpace(JobSpace):
    """Project of a session, which is its user's own in everything else: its name is free, and it
    sees the home. ``folder``: of the project, None without one."""

    noun = option = OPTION
    offered = True
    more_choices = frozenset({"partition", "qos", "constraint"})
    launch = "spawners.launch.projects:ProjectLaunch"
    help_rules = "portal.projects.visits.visits:VisitRules"

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

    def way_out(self, said: str) -> str:
        return way_out(self.title or self.name, said)

    @classmethod
    def may_help(cls, helper: Role | None, owner: Role | None) -> bool:
        return helper in WORKERS and owner is not None

    def variables(self, work: str) -> dict[str, str]:
        """Return the variables of its sessions. JupyterLab shows the folder; its process does not
        run there, so that it reads no configuration from it."""
        env = {"PORTAL_PROJECT": self.name, "PORTAL_PROJECT_ROLE": str(self.role)}
        if self.folder:
            env["PORTAL_PROJECT_FOLDER"] = self.folder
            if work == _LAB:
                env["JUPYTERHUB_ROOT_DIR"] = self.folder
        return env
