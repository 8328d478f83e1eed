"""``api/v1/projects``: list, request, change, approval and archive of projects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from portal.errors import NotAllowed
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.paging import Page, page_of
from portal.models.audit import AuditedAction
from portal.models.person import Person
from portal.models.scope import PROJECTS_MANAGE

from .access import NOBODY, ProjectAction
from .audit import ProjectAudit
from .bodies import (
    NewProject,
    ProjectAnswer,
    ProjectDetail,
    ProjectEdit,
    ProjectItem,
    ProjectsQuery,
    ProjectStep,
)
from .files import ENDPOINTS as OF_FILES
from .member_endpoints import ENDPOINTS as OF_MEMBERS
from .models import StoredProject
from .parts import ProjectParts
from .tables import ProjectTable
from .view import detail_of, item_of

Decision = Callable[[StoredProject, int, Person, str], Awaitable[StoredProject]]


class ProjectList(Action):
    """Projects that one is in, and for admins all of them."""

    path = "projects"

    async def admit(self) -> None:
        """Deny the request of a project to those who may not."""
        if self.request.method == "POST":
            try:
                self.parts_for(ProjectParts).service.demand_creation(self.person)
            except NotAllowed as error:
                await self.deny("projects", error)

    @Operation("List your projects.", query=ProjectsQuery)
    async def on_get(self) -> Page[ProjectItem]:
        """Return projects of all states to their members. Holders of the scope for it get
        everyone's, with the requests."""
        parts, store = self.parts_for(ProjectParts), self.parts.store
        mine = await self.parts.memberships.of_type("project").mine(self.person.name)
        projects: dict[str, Any] = {name: each.stored for name, each in mine.items()}
        if self.person.may(PROJECTS_MANAGE) and not self.query.mine:
            projects = {stored.name: stored for stored in await store.table(ProjectTable).all()}
        state = self.query.state
        chosen = [each for _, each in sorted(projects.items()) if state in (None, each.state)]
        page = page_of(chosen, self.query)
        items = [
            await item_of(
                store,
                stored,
                mine[stored.name].role if stored.name in mine else None,
                parts.leaving.problem(stored.name),
            )
            for stored in page.items
        ]
        return Page(items=tuple(items), next=page.next, total=page.total)

    @Operation("Request a project.", body=NewProject, status=201, errors=(409,))
    async def on_post(self) -> ProjectDetail:
        """Create a project with you as an owner. It is approved at once by the site's policy or for
        an admin; else it waits for an admin."""
        asked: NewProject = self.body
        people = {member.person: member.role for member in asked.members}
        target = f"project {asked.project.name}"
        async with self.audited(ProjectAudit.CREATE_PROJECT, target) as line:
            parts = self.parts_for(ProjectParts)
            stored = await parts.service.create(asked.project, people, self.person)
            line.detail = f"State: {stored.state}."
        return await detail_of(parts, self.parts.store, stored, self.person)


class OneProject(ProjectAction):
    """Project by its name."""

    path = "projects/{project}"

    @Operation("A project.")
    async def on_get(self, project: str) -> ProjectDetail:
        """Return it to its members and to admins."""
        return await self.detail(await self.fresh())

    @Operation("Change a project.", body=ProjectEdit, errors=(409,))
    async def on_put(self, project: str) -> ProjectDetail:
        """Change it as one of its owners or an admin. More than was approved takes an admin, unless
        it is within the site's policy."""
        async with self.audited(ProjectAudit.EDIT_PROJECT, f"project {project}"):
            stored = await self.project_parts.service.edit(
                self.stored, self.body.project, self.body.number, self.person
            )
        return await self.detail(stored)


class _Decision(ProjectAction):
    """Base class of an admin's answers to a request."""

    changers = NOBODY

    async def answered(self, action: AuditedAction, decide: Decision) -> ProjectDetail:
        """Answer the request as the admin ``decide``s."""
        body: ProjectAnswer = self.body
        target = f"project {self.stored.name}"
        async with self.audited(action, target, self.stored.created_by, body.answer):
            stored = await decide(self.stored, body.number, self.person, body.answer)
        return await self.detail(stored)


class ProjectApproval(_Decision):
    """Approval of a project."""

    path = "projects/{project}/approve"

    @Operation("Approve a project.", body=ProjectAnswer, errors=(409,))
    async def on_post(self, project: str) -> ProjectDetail:
        """Approve a request, or one that was refused."""
        return await self.answered(ProjectAudit.APPROVE_PROJECT, self.project_parts.service.approve)


class ProjectRefusal(_Decision):
    """Refusal of a project."""

    path = "projects/{project}/refuse"

    @Operation("Refuse a project.", body=ProjectAnswer, errors=(409,))
    async def on_post(self, project: str) -> ProjectDetail:
        """Refuse a request, with the reason for its owner."""
        return await self.answered(ProjectAudit.REFUSE_PROJECT, self.project_parts.service.refuse)


class ProjectArchive(ProjectAction):
    """Archive of a project."""

    path = "projects/{project}/archive"

    @Operation("Archive a project.", body=ProjectStep, errors=(409,))
    async def on_post(self, project: str) -> ProjectDetail:
        """Nothing starts in it any more, and what runs in it is stopped after a warning. Nothing is
        deleted."""
        async with self.audited(ProjectAudit.ARCHIVE_PROJECT, f"project {project}"):
            service = self.project_parts.service
            stored = await service.archive(self.stored, self.body.number)
        return await self.detail(stored)


class ProjectRestore(ProjectAction):
    """Return of an archived project."""

    path = "projects/{project}/restore"

    @Operation("Restore an archived project.", body=ProjectStep, errors=(409,))
    async def on_post(self, project: str) -> ProjectDetail:
        """Approve it at once by the site's policy or for an admin; else request it."""
        async with self.audited(ProjectAudit.RESTORE_PROJECT, f"project {project}") as line:
            service = self.project_parts.service
            stored = await service.restore(self.stored, self.body.number, self.person)
            line.detail = f"State: {stored.state}."
        return await self.detail(stored)


# The more general address is last.
ENDPOINTS = (
    *OF_FILES,
    *OF_MEMBERS,
    ProjectApproval,
    ProjectRefusal,
    ProjectArchive,
    ProjectRestore,
    OneProject,
    ProjectList,
)
