"""What differs for sessions of projects in the Hub: the folder, and what readers have."""

from __future__ import annotations

from functools import partial

from portal.errors import NotAllowed, Unavailable
from portal.launch.kinds.kind import AskedFor, Kind, LaunchFacts
from portal.models.catalog.environment import Bind, Environment
from portal.models.space import Role
from portal.projects.place import folder_path, is_folder
from portal.projects.settings import Projects
from portal.projects.space import ProjectSpace
from portal.spaces.job_space import JobSpace

from .spaces import SpaceLaunch

_PATIENCE = 5.0  # seconds that a launch waits for the file system of the folder


class ProjectLaunch(SpaceLaunch):
    """Launches in a project. A reader has sessions without GPUs, on an account of their own."""

    @property
    def charged(self) -> bool:
        return self.role is not Role.READER

    def check(self, kind: Kind, asked: AskedFor) -> None:
        """Raise NotAllowed for what a reader cannot start."""
        if self.charged:
            return
        called = self.stored.space.called
        if not kind.serves:
            raise NotAllowed(
                f"You are a reader of the {called}, so you cannot start a {kind.words.noun} in it. "
                f"Ask its {self.stored.space.leader} to make you a member."
            )
        if asked.resources.gpus:
            raise NotAllowed(
                f"You are a reader of the {called}: your sessions in it have no GPUs. Ask its "
                f"{self.stored.space.leader} to make you a member."
            )

    async def job_space(self, kind: Kind) -> ProjectSpace:
        project = self.stored.space
        settings = self.spawner.shared.settings.get(Projects)
        path = folder_path(settings.root, project.name)
        try:
            exists = bool(path) and await self.spawner.shared.blocking.call(
                ("project", path), partial(is_folder, path), _PATIENCE
            )
        except OSError as error:  # a timeout is one
            raise Unavailable(
                f"The folder of the {project.called} does not answer now. Try again in a minute."
            ) from error
        return ProjectSpace(
            name=project.name,
            title=project.title,
            role=self.role,
            folder=path if exists else None,
        )

    def placed(self, environment: Environment, facts: LaunchFacts, space: JobSpace) -> Environment:
        """Return ``environment`` with the folder; for a reader, with an account of their own."""
        assert isinstance(space, ProjectSpace)
        binds = environment.binds
        if space.folder:
            binds += (Bind(source=space.folder, read_only=not self.charged),)
        default = environment.default
        if not self.charged:
            default = default.model_copy(update={"account": self._own_account(facts)})
        return environment.model_copy(update={"binds": binds, "default": default})

    def _own_account(self, facts: LaunchFacts) -> str | None:
        """Return an account of the reader that is not the project's; None if Slurm has no
        accounts. Raises NotAllowed without one."""
        of_project = self.stored.space.account
        if not facts.associations or of_project is None:
            return None
        own = [row for row in facts.associations if row.account != of_project]
        if not own:
            raise NotAllowed(
                f"You are a reader of the {self.stored.space.called}, so your sessions in it are "
                f"not charged to its account '{of_project}', and you have no other."
            )
        return max(own, key=lambda row: row.is_default_account).account
