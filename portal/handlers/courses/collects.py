"""Folders that a course collects: managed by its staff, handed in by its sessions."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints
from tornado.iostream import StreamClosedError

from portal.courses.live.presence import is_own
from portal.errors import Conflict, NotFound
from portal.models import Frozen
from portal.models.course.audit import CourseAudit
from portal.models.course.files import CollectList
from portal.models.course.live import Collect
from portal.work.course.parts import CourseParts

from ..base.endpoint import Operation, Query
from ..base.upload import FILE, Upload
from .access import COURSE, CourseAction
from .live import OwnCourseSession

ZIP = "application/zip"
_ID = "[0-9]{1,9}"
_HEADERS = 32 * 1024 * 1024  # bytes around the files of a tar
_END = b""


class CollectDraft(Frozen):
    """Folder to collect, as it is named in everyone's home."""

    folder: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class GivenQuery(Query):
    """``problem``: why there is nothing, in a sentence; then the body is empty.

    ``left_out``: how many things the session did not pack.
    """

    problem: Annotated[str, StringConstraints(max_length=500)] = ""
    left_out: Annotated[int, Field(ge=0, le=10**9)] = 0


class CourseCollects(CourseAction):
    """Collections of a course."""

    path = "courses/{course}/collects"
    admins = False  # what lies in students' sessions is the course's alone

    @Operation("A course's collections: who handed in, when, how much, and who is missing.")
    async def on_get(self, course: str) -> CollectList:
        """Return the collections to the course's staff only."""
        return CollectList(items=await self.parts_for(CourseParts).collecting.items(self.stored))

    @Operation(
        "Collect a folder from everyone: a dated copy from each session that runs now or "
        "starts before the collection is closed.",
        body=CollectDraft,
        status=201,
        errors=(409,),
    )
    async def on_post(self, course: str) -> Collect:
        """Collect as one of the course's staff. Links, and things outside of it, never come."""
        collecting = self.parts_for(CourseParts).collecting
        async with self.audited(CourseAudit.COLLECT, f"course {course}", detail=self.body.folder):
            collect = await collecting.begin(self.stored, self.body.folder, self.person.name)
        self.parts_for(CourseParts).open_collects.forget()
        return collect


class OneCollect(CourseAction):
    """Base class of actions on a single collection."""

    parameters = {"course": COURSE, "id": _ID}
    admins = False

    async def collect(self, id: str) -> Collect:
        """Return the collection. Raises NotFound."""
        return await self.parts.store.collects.get(self.stored.name, int(id))


class CloseCollect(OneCollect):
    """End of a collection."""

    path = "courses/{course}/collects/{id}/close"

    @Operation("Close a collection.")
    async def on_post(self, course: str, id: str) -> Collect:
        """Close it as one of the course's staff. Files that were handed in stay."""
        collects = self.parts.store.collects
        async with self.audited(CourseAudit.CLOSE_COLLECTION, f"course {course}", detail=id):
            closed = await collects.close(course, int(id), time.time())
        self.parts_for(CourseParts).open_collects.forget()
        return closed


class DownloadCollect(OneCollect):
    """All that was handed in for a collection."""

    path = "courses/{course}/collects/{id}/download"

    @Operation("Download a collection as a zip file.", media=ZIP)
    async def on_get(self, course: str, id: str) -> None:
        """Return a folder per person, to the course's staff only; the file's name has the date."""
        collecting, collect = self.parts_for(CourseParts).collecting, await self.collect(id)
        name = f"{course}-{collecting.name(self.stored, collect)}.zip"
        async with self.audited(CourseAudit.DOWNLOAD_COLLECTION, f"course {course}", detail=name):
            self.set_header("Content-Disposition", f'attachment; filename="{name}"')
            self.set_header("Cache-Control", "no-store")
            if self.request.method != "HEAD":
                pieces = collecting.zipped(self.stored, collect)
                try:
                    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                        if piece != _END:
                            self.write(piece)
                            await self.flush()
                except StreamClosedError:
                    return  # nobody waits for the rest
                finally:
                    await asyncio.to_thread(pieces.close)  # type: ignore[attr-defined]
        self.finish()


class OwnCollect(Upload, OwnCourseSession):
    """Folder that the session hands in."""

    path = "session/collects/{id}"
    parameters = {"id": _ID}

    @property
    def place(self) -> Path:
        return self.parts_for(CourseParts).incoming

    @property
    def most(self) -> int:
        return self.parts_for(CourseParts).collecting.most + _HEADERS

    @Operation(
        "Hand in the folder that a course collects: the body is a tar file.",
        query=GivenQuery,
        takes=FILE,
        errors=(409, 429),
    )
    async def on_put(self, id: str) -> None:
        """Use the session's own token only, for its own course.

        Plain files are kept; links, devices and names that lead out are left out.
        """
        record, collecting = await self.of_course(), self.parts_for(CourseParts).collecting
        if not is_own(record):
            raise Conflict("Folders are not collected from rehearsals, previews or rooms.")
        member = await self.parts.memberships.of_type("course").membership(
            record.user, record.space
        )
        try:
            collect = await self.parts.store.collects.get(record.space, int(id))
        except NotFound:
            raise NotFound("There is no such collection in your course.") from None
        if self.empty:
            problem = self.query.problem or "The session sent nothing."
            await collecting.nothing(collect, record.user, problem)
            return
        await collecting.take(member.stored, collect, record.user, self.file, self.query.left_out)
        self.parts_for(CourseParts).open_collects.forget()


ENDPOINTS = (CourseCollects, CloseCollect, DownloadCollect, OwnCollect)
