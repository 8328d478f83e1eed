"""Files of projects: a YAML document with a project and its members, to make the same elsewhere."""

from __future__ import annotations

import asyncio

from portal.errors import NotAllowed
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation

from .access import OWNERS, ProjectAction
from .audit import ProjectAudit
from .bodies import ImportedProject, ProjectDetail
from .elsewhere.contents import contents_of
from .elsewhere.creation import create_from
from .elsewhere.document import project_text, read_project
from .folder.place import folder_path
from .parts import ProjectParts
from .view import detail_of

MEDIA = "text/plain; charset=utf-8"  # a browser shows it, and runs nothing of it


class ProjectExport(ProjectAction):
    """File of a project."""

    path = "projects/{project}/export"
    roles = OWNERS

    @Operation("Export a project as YAML.", media=MEDIA)
    async def on_get(self, project: str) -> None:
        """Return a file from which the same project can be made, here or elsewhere."""
        async with self.audited(ProjectAudit.EXPORT_PROJECT, f"project {project}"):
            members = await self.project_parts.members.members_of(project)
            folder = folder_path(self.project_parts.settings.root, project)
            contents, left_out = await contents_of(
                self.parts.catalog, self.parts.store, self.stored.project, folder
            )
            text = project_text(self.stored.project, members.values(), contents)
            if left_out:
                text = f"# {left_out}\n{text}"
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
            file = await asyncio.to_thread(read_project, asked.text, name=asked.name)
            line.target = f"project {file.project.name}"
            parts = self.parts_for(ProjectParts)
            stored = await create_from(parts, file, self.person, members=asked.members)
            line.detail = f"State: {stored.state}."
        return await detail_of(parts, self.parts.store, stored, self.person)


ENDPOINTS = (ProjectImport, ProjectExport)
