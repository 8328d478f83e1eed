"""Tables of what projects' files say, and of the runs that repeat those of a file. Written by the
service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update

from portal.models import Frozen
from portal.store.engine.columns import NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from portal.store.engine.rows import ModelTable

from .document import Contents

project_contents = keyed(
    "project_contents",
    *keys(NAME, "project"),
    *filled(Json, "contents"),
    *filled(TEXT, "origin", "left_out", "brought"),
    *filled(NAME, "files"),
    *optional(TIME, "brought_at"),
)
project_repetitions = keyed(
    "project_repetitions",
    *keys(NAME, "project", "user", "run"),
    *filled(NAME, "entry"),
    *filled(TIME, "at"),
)
_MOST = 20  # repetitions of a project that are shown: the page reads the points of each


class StoredContents(Frozen):
    """Contents of the file of a project, as it was imported. ``origin``: the repository, or "";
    ``left_out``: a sentence on its files; ``files``: the revision of files that a session of an
    owner brings into the folder, "" for none; ``brought``: what it said of that."""

    project: str
    contents: Contents = Contents()
    origin: str = ""
    left_out: str = ""
    files: str = ""
    brought: str = ""
    brought_at: float | None = None


class Repetition(Frozen):
    """Run of a user that repeats the ``entry`` of the project's file with this name."""

    project: str
    user: str
    run: str
    entry: str
    at: float


class ProjectContentTable(ModelTable[StoredContents]):
    """The table of projects' files. Every method raises StoreUnavailable."""

    table, model = project_contents, StoredContents

    async def put(self, stored: StoredContents) -> None:
        """Insert what the file of a new project says."""
        await self._write(
            self._database.upsert(project_contents, "contents", "origin", "left_out", "files"),
            stored.model_dump(mode="json"),
        )

    async def of_project(self, project: str) -> StoredContents:
        """Return what the file of a project says; nothing for one that has none."""
        query = select(project_contents).where(project_contents.c.project == project)
        return await self._first(query) or StoredContents(project=project)

    async def note_brought(self, project: str, files: str, **values: Any) -> None:
        """Note what a session said of these files."""
        columns = project_contents.c
        this = (columns.project == project) & (columns.files == files)
        await self._write(update(project_contents).where(this).values(**values))


class ProjectRepetitionTable(ModelTable[Repetition]):
    """The table of repetitions. Every method raises StoreUnavailable."""

    table, model = project_repetitions, Repetition

    async def add_row(self, repetition: Repetition) -> None:
        """Insert a repetition, unless it is there."""
        insert = self._database.insert(project_repetitions).values(repetition.model_dump())
        await self._write(insert.on_conflict_do_nothing())

    async def of_project(self, project: str) -> list[Repetition]:
        """Return the newest repetitions in a project."""
        columns = project_repetitions.c
        query = select(project_repetitions).where(columns.project == project)
        return await self._models(query.order_by(columns.at.desc()).limit(_MOST))
