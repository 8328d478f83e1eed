"""``api/v1/courses/{course}/board``: state of every student's session, for those who teach."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.models.course.board import CourseBoard
from portal.models.space import STAFF
from portal.work.course.parts import CourseParts

from ..base.endpoint import Operation, Query
from .access import CourseAction


class BoardQuery(Query):
    """Version that the client has already."""

    version: Annotated[str, Field(max_length=40)] = ""


class BoardAnswer(CourseBoard):
    """Board of a course. ``same``: nothing on it has changed since the version asked with.

    Its tiles are left out then.
    """

    same: bool = False


class BoardOfCourse(CourseAction):
    """Live board of a course."""

    path = "courses/{course}/board"
    roles = STAFF

    @Operation(
        "The live board of a course: every student's session.", query=BoardQuery, sparse=True
    )
    async def on_get(self, course: str) -> BoardAnswer:
        """Return it to the course's instructors and assistants.

        Users who only manage courses see the state of the sessions, and nothing of what students do
        in them. It is made from memory, at most every 1.5 seconds for all who watch. What a tile
        leaves out is its default.
        """
        board = await self.parts_for(CourseParts).boards.board_of(
            self.stored, private=self.role is not None
        )
        if self.query.version == board.version:
            return BoardAnswer(
                version=board.version, at=board.at, taken_at=board.taken_at, same=True
            )
        return BoardAnswer.model_validate(board.model_dump(exclude_defaults=True))


ENDPOINTS = (BoardOfCourse,)
