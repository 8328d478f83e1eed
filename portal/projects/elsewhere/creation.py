"""Creation of a project from a file, wherever that comes from."""

from __future__ import annotations

from portal.models.person import Person

from ..models import StoredProject
from ..parts import ProjectParts
from .document import ProjectFile
from .tables import ProjectContentTable, StoredContents


async def create_from(
    parts: ProjectParts,
    file: ProjectFile,
    by: Person,
    *,
    members: bool = False,
    origin: str = "",
    left_out: str = "",
    files: str = "",
) -> StoredProject:
    """Request the project of a file, with ``by`` as an owner. ``members``: those of the file are
    members, too; the rest is as of StoredContents. Raises what ``ProjectService.create`` does."""
    people = file.people.roles() if members else {}
    stored = await parts.service.create(file.project, people, by)
    contents = StoredContents(
        project=stored.name,
        contents=file.contents,
        origin=origin,
        left_out=left_out,
        files=files,
    )
    await parts.service.store.table(ProjectContentTable).put(contents)
    return stored
