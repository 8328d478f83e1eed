"""Objects of the web service for projects."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from portal.models.home import HomePart, Place, Since
from portal.models.person import Person
from portal.models.scope import PROJECTS_MANAGE
from portal.models.session.session import SessionRecord
from portal.models.space import SpaceState
from portal.periodic import Periodic

from .folder.folders import ProjectFolders
from .folder.keeping import FolderKeeping
from .leaving import Leaving
from .members import ProjectMembers
from .rules import ProjectRules
from .service import ProjectService
from .settings import Projects
from .tables import ProjectTable

if TYPE_CHECKING:
    from portal.assembly import Services

_OPEN = (SpaceState.REQUESTED, SpaceState.APPROVED)


class ProjectParts:
    """Parts for projects, made once; ``tasks``: the loop that the service keeps running."""

    def __init__(self, services: Services) -> None:
        self._services = services
        store, cluster = services.store, services.cluster
        self._memberships = services.memberships.of_type("project")
        self.settings = services.settings.get(Projects)
        self.members = ProjectMembers(
            store, self._memberships, services.directory, self.settings, services.log
        )
        rules = ProjectRules(
            self.settings,
            lambda name: cluster.has_account(name),
            lambda user: cluster.associations(user),
            self._environments,
        )
        self.service = ProjectService(store, self._memberships, rules, self.members, self.settings)
        self.leaving = Leaving(store, self.members, services.hub, services.note, services.log)
        self.folders = FolderKeeping(ProjectFolders(services.log), store, services.log)
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "projects": self._look,
            "project-folders": self._keep_folders,
        }

    async def _look(self) -> None:
        await Periodic(
            "The look at projects",
            lambda: self.leaving.look_at_projects(time.time()),
            self.leaving.interval,
            self._services.log,
        ).run()

    async def _keep_folders(self) -> None:
        keeping, log = self.folders, self._services.log
        try:
            await Periodic("Folders of projects", keeping.look, keeping.interval, log).run()
        finally:
            await keeping.stop()

    async def _environments(self, person: Person) -> list[str]:
        catalog = self._services.catalog
        await catalog.load()
        return [environment.name for environment in catalog.visible_to(person)]

    def home_parts(self, person: Person, since: Since) -> Iterator[HomePart]:
        """Yield Home's part for admins: what they have to do for projects."""
        if person.may(PROJECTS_MANAGE):
            title, load = "Projects that need an admin", self._for_admins
            yield HomePart("project-requests", title, Place.TODAY, "home_tasks.html", load)

    async def _for_admins(self) -> Mapping[str, Any] | None:
        """Return projects that wait for approval or lack an owner; None without any."""
        stored = await self._services.store.table(ProjectTable).all(*_OPEN)
        tasks = [
            {
                "state": str(project.state),
                "title": project.project.title,
                "words": self.leaving.problem(project.name),
                "url": f"{self._services.prefix}projects/{project.name}",
            }
            for project in stored
            if project.state is SpaceState.REQUESTED or self.leaving.problem(project.name)
        ]
        return {"tasks": tasks} if tasks else None

    async def status_of(self, record: SessionRecord) -> dict[str, Any]:
        """Return what a session is told of its project."""
        messages = self.leaving.messages(record)
        return {"messages": messages} if messages else {}
