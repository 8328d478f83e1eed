"""Room of a course: its state, opening and closing it."""

from __future__ import annotations

import time

from portal.errors import Conflict, NotAllowed
from portal.models.course.audit import CourseAudit
from portal.models.course.room import Room
from portal.models.space import STAFF
from portal.work.course.parts import CourseParts

from ..base.action import Confirmation
from ..base.endpoint import Operation
from ..base.entry import ServerAddress, enter
from .access import EVERYONE, CourseAction


class CourseRoom(CourseAction):
    """Room of a course."""

    path = "courses/{course}/room"
    roles = EVERYONE
    changers = STAFF

    @Operation("A course's room: its state, its address, and who is in it.")
    async def on_get(self, course: str) -> Room:
        """Return it to everyone in the course."""
        return await self.parts_for(CourseParts).rooms.room_of(self.stored, time.time())

    @Operation("Open a course's room.", status=202, errors=(409,))
    async def on_post(self, course: str) -> Confirmation:
        """Open it as one of the course's staff.

        The room is a session of the user who opens it, with the course's resources. All members of
        the course may enter while it runs.
        """
        name = self.person.name
        async with self.audited(CourseAudit.OPEN_ROOM, f"course {course}", name):
            if self.role is None:
                raise NotAllowed(
                    "Only the course's own instructors and assistants can open its room."
                )
            await self.parts_for(CourseParts).rooms.open(self.stored, name, time.time())
        return self.done("The room is opening.")

    @Operation("Close a course's room.", errors=(409,))
    async def on_delete(self, course: str) -> Confirmation:
        """Close it as any of the course's staff, or as an admin.

        Its files stay in the folder of the user who opened it.
        """
        async with self.audited(CourseAudit.CLOSE_ROOM, f"course {course}") as line:
            record = await self.parts_for(CourseParts).rooms.close(self.stored, self.person.name)
            line.target, line.detail = f"session {record.id}", f"Opened by {record.user}."
        return self.done("The room is closing.")


class EnterCourseRoom(CourseAction):
    """Entrance to a course's room."""

    path = "courses/{course}/room/enter"
    roles = EVERYONE
    admins = False

    @Operation("Enter a course's room.", errors=(409,))
    async def on_post(self, course: str) -> ServerAddress:
        """Enter it from the portal's page. The Hub then asks nothing.

        Programs get the address from the room's state.
        """
        room = await self.parts_for(CourseParts).rooms.room_of(self.stored, time.time())
        if not room.url:
            raise Conflict("The room is not open.")
        return await enter(self, room.by, room.server)


ENDPOINTS = (CourseRoom, EnterCourseRoom)
