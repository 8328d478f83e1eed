"""Objects of the web service for projects."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from portal.models.person import Person
from portal.models.session.session import SessionRecord
from portal.periodic import Periodic

from .leaving import Leaving
from .members import ProjectMembers
from .rules import ProjectRules
from .service import ProjectService
from .settings import Projects

if TYPE_CHECKING:
    from portal.assembly import Services


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
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {"projects": self._look}

    async def _look(self) -> None:
        await Periodic(
            "The look at projects",
            lambda: self.leaving.look_at_projects(time.time()),
            self.leaving.interval,
            self._services.log,
        ).run()

    async def _environments(self, person: Person) -> list[str]:
        catalog = self._services.catalog
        await catalog.load()
        return [environment.name for environment in catalog.visible_to(person)]

    async def status_of(self, record: SessionRecord) -> dict[str, Any]:
        """Return what a session is told of its project."""
        messages = self.leaving.messages(record)
        return {"messages": messages} if messages else {}
