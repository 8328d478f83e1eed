"""Files of a forked project, for a session of an owner, which puts them into the folder."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.errors import NotAllowed, NotFound, Unavailable
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import OwnSession
from portal.handlers.base.upload import FILE
from portal.models import Frozen
from portal.models.plain_text import PLAIN_TEXT
from portal.models.space import Role

from ..parts import ProjectParts
from .tables import ProjectContentTable, StoredContents

_CHUNK = 1024 * 1024


class FilesReport(Frozen):
    """Report of a session: all files of this ``revision`` are in the folder; ``message`` says how
    many were there already."""

    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,64}$")]
    message: Annotated[str, Field(max_length=1000), *PLAIN_TEXT] = ""


class OwnProjectFiles(OwnSession):
    """Files of the repository that this session's project comes from."""

    path = "session/project/files"

    async def waiting(self) -> StoredContents:
        """Return the project's file, whose files are not in its folder yet. Raises NotFound without
        any or for others than its owners; as ``own_record``."""
        record = await self.own_record()
        try:
            memberships = self.parts.memberships.of_type("project")
            membership = await memberships.membership(record.user, record.space)
        except (NotAllowed, NotFound):
            raise NotFound("This session belongs to no project.") from None
        if membership.role is not Role.OWNER:
            raise NotFound("A session of an owner brings the files.")
        stored = await self.parts.store.table(ProjectContentTable).of_project(record.space)
        if not stored.files or stored.brought_at is not None:
            raise NotFound("This project has no files of a repository that are missing.")
        return stored

    @Operation(
        "The files of the repository that this session's project comes from, as a tar archive.",
        media=FILE,
    )
    async def on_get(self) -> None:
        """Use the session's own token only. The ETag is the revision."""
        stored = await self.waiting()
        place = self.parts_for(ProjectParts).archives.place(stored.project, stored.files)
        try:
            size = (await asyncio.to_thread(place.stat)).st_size
            file = await asyncio.to_thread(place.open, "rb")
        except OSError as error:
            raise Unavailable(f"The files cannot be read now: {error.strerror}.") from None
        self.set_header("ETag", f'"{stored.files}"')
        self.set_header("Content-Length", str(size))
        with file:
            while self.request.method != "HEAD":
                if not (part := await asyncio.to_thread(file.read, _CHUNK)):
                    break
                self.write(part)
                await self.flush()
        self.finish()

    @Operation("Report that the files are in the folder of the project.", body=FilesReport)
    async def on_put(self) -> None:
        """Use the session's own token only. The portal keeps them no longer."""
        stored, report = await self.waiting(), self.body
        if report.revision != stored.files:
            raise NotFound("These are not the project's files.")
        await self.parts.store.table(ProjectContentTable).note_brought(
            stored.project, stored.files, brought=report.message, brought_at=time.time()
        )
        await self.parts_for(ProjectParts).archives.forget(stored.project, stored.files)
        self.set_status(204)
        self.finish()


ENDPOINTS = (OwnProjectFiles,)
