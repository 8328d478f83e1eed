"""Pages of projects."""

from __future__ import annotations

import contextlib
from typing import Any

from portal.errors import NotAllowed, NotFound, StoreUnavailable
from portal.handlers.pages.pages import Page
from portal.models.scope import PROJECTS_MANAGE

from .models import PROJECT
from .parts import ProjectParts


class ProjectsPage(Page):
    """A person's projects; for admins, all."""

    template = "projects.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer whether the person sees all projects and may request one."""
        requests = self.parts_for(ProjectParts).service.may_create(self.person)
        return {"manages": self.person.may(PROJECTS_MANAGE), "requests": requests}


class ProjectPage(Page):
    """One project, for its members and admins."""

    template = "project.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer 404 if this person may not know of it. While the database is down, the page says
        so itself."""
        name = segments[0]
        memberships = self.parts.memberships.of_type("project")
        with contextlib.suppress(StoreUnavailable):
            try:
                if self.person.may(PROJECTS_MANAGE):
                    await memberships.space(name)
                else:
                    await memberships.membership(self.person.name, name)
            except (NotAllowed, NotFound):
                await self.refused(f"project {name}")
                raise NotFound(f"There is no project '{name}' that you can access.") from None
        return {"project": name}


PROJECT_PAGES = (
    (r"projects/?", ProjectsPage),
    (rf"projects/({PROJECT})", ProjectPage),
)
