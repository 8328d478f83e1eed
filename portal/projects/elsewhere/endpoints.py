"""``api/v1/projects``: new projects from templates and git repositories."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.errors import InvalidRequest, NotAllowed
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.models.plain_text import PLAIN_LINE
from portal.models.space import SpaceName

from ..audit import ProjectAudit
from ..bodies import ProjectDetail
from ..parts import ProjectParts
from ..view import detail_of
from .creation import create_from
from .document import ProjectFile, read_project
from .repeating import ENDPOINTS as OF_RUNS
from .session_files import ENDPOINTS as OF_SESSIONS

_FILE = "project.yaml"  # at the root of a repository
_Title = Annotated[
    str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True), *PLAIN_LINE
]


class TemplateItem(Frozen):
    """Template of the site. ``problem``: why it cannot be used; "" if it can."""

    name: str
    title: str
    description: str
    environments: tuple[str, ...]
    problem: str


class Templates(Frozen):
    """Templates of the site, by name."""

    items: tuple[TemplateItem, ...]


class FromTemplate(Frozen):
    """New project from a template: its name, and its ``title`` unless it is the template's."""

    template: Annotated[str, Field(min_length=1, max_length=255)]
    name: SpaceName
    title: _Title | None = None


class ForkedRepository(Frozen):
    """New project from a repository that has a ``project.yaml``. ``branch``: "" for its own;
    ``name``: null for that in the file; ``files``: whether the repository's files come into the
    folder of the project."""

    repository: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    branch: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/-]{0,100}$")] = ""
    name: SpaceName | None = None
    files: Annotated[bool, Field(strict=True)] = True


class _Creation(Action):
    """Base class: for those who may request projects."""

    async def admit(self) -> None:
        try:
            self.parts_for(ProjectParts).service.demand_creation(self.person)
        except NotAllowed as error:
            await self.deny("projects", error)


class ProjectsFromTemplates(_Creation):
    """Templates of projects."""

    path = "projects/templates"

    @Operation("List the site's templates of projects.")
    async def on_get(self) -> Templates:
        """Return those that can be used, and why others cannot."""
        templates = await self.parts_for(ProjectParts).templates.all()
        items = []
        for name, file, problem in templates:
            project = file.project if file else None
            items.append(
                TemplateItem(
                    name=name,
                    title=project.title if project else name,
                    description=project.description if project else "",
                    environments=project.environments if project else (),
                    problem=problem,
                )
            )
        return Templates(items=tuple(items))

    @Operation("Request a project from a template.", body=FromTemplate, status=201, errors=(409,))
    async def on_post(self) -> ProjectDetail:
        """Create it with you as an owner, like a new one; its limits can be changed then."""
        asked: FromTemplate = self.body
        async with self.audited(ProjectAudit.CREATE_PROJECT, f"project {asked.name}") as line:
            parts = self.parts_for(ProjectParts)
            file = await parts.templates.get(asked.template)
            changes = {"name": asked.name, "title": asked.title or file.project.title}
            project = file.project.model_copy(update=changes)
            renamed = file.model_copy(update={"project": project})
            stored = await create_from(parts, renamed, self.person)
            line.detail = f"Template {asked.template}. State: {stored.state}."
        return await detail_of(parts, self.parts.store, stored, self.person)


class ProjectForks(_Creation):
    """Projects from repositories."""

    path = "projects/forks"

    @Operation(
        "Request a project from a git repository.",
        body=ForkedRepository,
        status=201,
        errors=(409, 502),
    )
    async def on_post(self) -> ProjectDetail:
        """Fetch the newest state of an https repository, without submodules, links and its history,
        and request the project in its ``project.yaml``, with you as an owner.

        The first session of an owner in the project puts the files into its folder.
        """
        asked: ForkedRepository = self.body
        async with self.audited(ProjectAudit.FORK_PROJECT, "projects") as line:
            parts = self.parts_for(ProjectParts)
            archives = parts.archives
            try:
                async with archives.fetched(asked.repository, asked.branch, _FILE) as fetched:
                    file = await asyncio.to_thread(_read, fetched.text, asked.name)
                    line.target = f"project {file.project.name}"
                    stored = await create_from(
                        parts,
                        file,
                        self.person,
                        origin=f"{asked.repository} ({fetched.commit[:12]})",
                        left_out=fetched.left_out if asked.files else "",
                        files=fetched.revision if asked.files else "",
                    )
                    if asked.files:
                        await archives.keep(fetched, stored.name)
            except OSError as error:
                raise InvalidRequest(
                    f"The portal cannot store the files: {error.strerror}.", "repository"
                ) from None
            line.detail = f"State: {stored.state}."
        return await detail_of(parts, self.parts.store, stored, self.person)


def _read(text: str, name: str | None) -> ProjectFile:
    try:
        return read_project(text, name=name)
    except InvalidRequest as error:
        raise InvalidRequest(f"'{_FILE}': {error.message}", "repository") from None


# Before projects/{project}: no project is called "templates" or "forks" (rules.py).
ENDPOINTS = (ProjectsFromTemplates, ProjectForks, *OF_RUNS, *OF_SESSIONS)
