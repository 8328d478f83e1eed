"""Files of projects: a YAML document with a project and its members, to make the same elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from portal.catalog.definitions.document import read_document
from portal.catalog.definitions.yaml_text import document_text
from portal.errors import ConfigurationError, InvalidRequest, NotAllowed
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.models.space import Login, Role

from .access import OWNERS, ProjectAction
from .audit import ProjectAudit
from .bodies import ImportedProject, ProjectDetail
from .members import MOST
from .models import Project, ProjectMember
from .parts import ProjectParts
from .view import detail_of

MEDIA = "text/plain; charset=utf-8"  # a browser shows it, and runs nothing of it
_People = Annotated[tuple[Login, ...], Field(max_length=MOST)]
_LISTS = {"owners": Role.OWNER, "members": Role.MEMBER, "readers": Role.READER}


class People(Frozen):
    """Members by user name, without those of a group of the directory."""

    owners: _People = ()
    members: _People = ()
    readers: _People = ()

    def roles(self) -> dict[str, Role]:
        """Return each person's role: the highest, for a person in several lists."""
        named = [(name, role) for field, role in _LISTS.items() for name in getattr(self, field)]
        return dict(reversed(named))


class ProjectFile(Frozen):
    """Document with a project. ``format``: of the document."""

    format: Literal[1] = 1
    project: Project
    people: People = People()


def read_project(text: str, name: str | None = None) -> ProjectFile:
    """Parse a document; ``name`` replaces the project's. Raises InvalidRequest with the line and
    the key."""
    try:
        document = read_document(text.encode())
    except ConfigurationError as error:
        raise InvalidRequest(f"The file is no YAML document. {error.message}", "text") from None
    values = document.data
    if name is not None and isinstance(values, dict) and isinstance(values.get("project"), dict):
        values = {**values, "project": {**values["project"], "name": name}}
    try:
        return ProjectFile.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])[:100]
        words = str(first["msg"]).removeprefix("Value error, ")
        line = document.line_of(tuple(first["loc"]))
        raise InvalidRequest(f"Line {line}: '{where}': {words}.", "text") from None


def project_text(project: Project, members: Iterable[ProjectMember]) -> str:
    """Return the document of a project, without members that come from the directory's group."""
    given = project.model_dump(mode="json", exclude_defaults=True)
    listed = [member for member in members if member.source == "list"]
    people = {
        field: [member.person for member in listed if member.role is role]
        for field, role in _LISTS.items()
    }
    values: dict[str, Any] = {
        "format": 1,
        "project": {name: given[name] for name in Project.model_fields if name in given},
        "people": {field: names for field, names in people.items() if names},
    }
    return document_text(values)


class ProjectExport(ProjectAction):
    """File of a project."""

    path = "projects/{project}/export"
    readers = OWNERS

    @Operation("Export a project as YAML.", media=MEDIA)
    async def on_get(self, project: str) -> None:
        """Return a file from which the same project can be made, here or elsewhere."""
        async with self.audited(ProjectAudit.EXPORT_PROJECT, f"project {project}"):
            members = await self.project_parts.members.members_of(project)
            text = project_text(self.stored.project, members.values())
        self.set_header("Content-Disposition", f'attachment; filename="{project}.project.yaml"')
        self.finish(text)


class ProjectImport(Action):
    """Import of a project."""

    path = "projects/import"

    async def admit(self) -> None:
        """Deny it to those who may not request projects."""
        try:
            self.parts_for(ProjectParts).service.demand_creation(self.person)
        except NotAllowed as error:
            await self.deny("projects", error)

    @Operation("Import a project.", body=ImportedProject, status=201, errors=(409,))
    async def on_post(self) -> ProjectDetail:
        """Request the project of a file, with you as an owner, like a new one."""
        asked: ImportedProject = self.body
        async with self.audited(ProjectAudit.IMPORT_PROJECT, "projects") as line:
            file = await asyncio.to_thread(read_project, asked.text, asked.name)
            line.target = f"project {file.project.name}"
            parts, people = self.parts_for(ProjectParts), file.people.roles()
            stored = await parts.service.create(
                file.project, people if asked.members else {}, self.person
            )
            line.detail = f"State: {stored.state}."
        return await detail_of(parts, self.parts.store, stored, self.person)


ENDPOINTS = (ProjectImport, ProjectExport)
