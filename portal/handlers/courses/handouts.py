"""Handouts of a course: for its staff, on the page; for its sessions, as one file."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.courses.live.presence import is_own
from portal.errors import Conflict, Unavailable
from portal.models import Frozen
from portal.models.course.audit import CourseAudit
from portal.models.course.files import HandoutState
from portal.models.course.live import Presence
from portal.models.space import SpaceState
from portal.work.course.parts import CourseParts

from ..base.endpoint import Operation, Query
from ..base.upload import FILE, Upload
from .access import CourseAction
from .live import OwnCourseSession

_CHUNK = 1024 * 1024
_ARCHIVED = "This course is archived, so its handouts cannot change. Copy it to the next term."
_Path = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class FileQuery(Query):
    """``path``: of the file in everyone's folder, such as "week1/exercise.ipynb"."""

    path: _Path


class HandoutReport(Frozen):
    """Report of a session on the handouts.

    ``revision`` is in its folder now; ``message`` is what its student should know.
    """

    revision: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40,64})?$")] = ""
    message: Annotated[str, Field(max_length=1000)] = ""


class CourseHandoutFiles(Upload, CourseAction):
    """Files that everyone in the course gets."""

    path = "courses/{course}/handouts"

    @property
    def place(self) -> Path:
        return self.parts_for(CourseParts).incoming

    @property
    def most(self) -> int:
        return int(self.parts_for(CourseParts).settings.handouts_megabytes) * 1024 * 1024

    @Operation(
        "A course's handouts: files, revisions, and why the last fetch failed.", errors=(502,)
    )
    async def on_get(self, course: str) -> HandoutState:
        """Return it to its staff, and to those who manage courses."""
        return await self.parts_for(CourseParts).handouts.state(self.stored)

    @Operation(
        "Hand out a file to everyone: the body is the file.",
        query=FileQuery,
        takes=FILE,
        errors=(409, 429, 502),
    )
    async def on_post(self, course: str) -> HandoutState:
        """Override the file of the same name in the course's source.

        Running sessions get it within seconds, others when they start.
        """
        handouts = self.parts_for(CourseParts).handouts
        async with self.audited(CourseAudit.HAND_OUT, f"course {course}", detail=self.query.path):
            _not_archived(self.stored.state)
            await handouts.hand_out(self.stored, self.query.path, self.file, self.person.name)
        return await handouts.state(self.stored)

    @Operation(
        "Withdraw an uploaded file. Files that students changed are kept.",
        query=FileQuery,
        errors=(409, 502),
    )
    async def on_delete(self, course: str) -> HandoutState:
        """Hand out the file of that name in the course's source again, if there is one."""
        handouts = self.parts_for(CourseParts).handouts
        async with self.audited(CourseAudit.TAKE_BACK, f"course {course}", detail=self.query.path):
            _not_archived(self.stored.state)
            await handouts.take_back(self.stored, self.query.path, self.person.name)
        return await handouts.state(self.stored)


class RefreshCourseHandouts(CourseAction):
    """Refresh of the handouts."""

    path = "courses/{course}/handouts/refresh"

    @Operation("Fetch the current state of the course's repository or folder.", errors=(409, 502))
    async def on_post(self, course: str) -> HandoutState:
        """Keep what was handed out before if that fails; the answer says why."""
        async with self.audited(CourseAudit.FETCH_HANDOUTS, f"course {course}"):
            _not_archived(self.stored.state)
            await self.parts_for(CourseParts).handouts.refresh(self.stored, self.person.name)
        return await self.parts_for(CourseParts).handouts.state(self.stored)


class OwnHandouts(OwnCourseSession):
    """Handouts for the session that asks."""

    path = "session/handouts"

    @Operation(
        "The newest handouts of this session's course, as a git bundle.",
        media=FILE,
        errors=(304, 409, 502),
    )
    async def on_get(self) -> None:
        """Use the session's own token only, for its own course. The ETag is the revision."""
        record = await self.of_course()
        await self.parts.memberships.of_type("course").membership(record.user, record.space)
        revision, path = await self.parts_for(CourseParts).handouts.bundle(record.space)
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:  # replaced by a newer revision just now, or the disk is away
            raise Unavailable(f"The handouts cannot be read now: {error.strerror}.") from None
        self.set_header("ETag", f'"{revision}"')
        with file:
            if self.check_etag_header():
                self.set_status(304)
            else:
                self.set_header("Content-Length", str(size))
                while self.request.method != "HEAD":
                    if not (part := await asyncio.to_thread(file.read, _CHUNK)):
                        break
                    self.write(part)
                    await self.flush()
        self.finish()


class OwnHandoutReport(OwnCourseSession):
    """Report on the handouts of the session that asks."""

    path = "session/handouts/report"

    @Operation(
        "Report which revision of the handouts is in this session's folder.",
        body=HandoutReport,
        errors=(409,),
    )
    async def on_put(self) -> None:
        """Use the session's own token only.

        The board of its course shows it; reports of rehearsals, previews and rooms are ignored.
        """
        record = await self.of_course()
        if not is_own(record):
            return
        text = "".join(char if char.isprintable() else " " for char in self.body.message)
        presence = Presence(
            course=record.space,
            person=record.user,
            session_id=record.id,
            seen_at=time.time(),
            handout=self.body.revision,
            handout_message=text,
        )
        await self.parts.store.presence.took_handout(presence)


def _not_archived(state: SpaceState) -> None:
    if state is SpaceState.ARCHIVED:
        raise Conflict(_ARCHIVED)


ENDPOINTS = (RefreshCourseHandouts, CourseHandoutFiles, OwnHandoutReport, OwnHandouts)
