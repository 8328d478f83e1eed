"""``api/v1/courses/{course}/board``: how every student's session is, for who teaches."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.models.course.board import CourseBoard
from portal.models.course.course import STAFF

from ..base.endpoint import Operation, Query
from .access import CourseAction


class BoardQuery(Query):
    """The version that one has already."""

    version: Annotated[str, Field(max_length=40)] = ""


class BoardAnswer(CourseBoard):
    """The board; ``same``: nothing on it has changed since the version that was asked with, and
    its tiles are left out."""

    same: bool = False


class BoardOfCourse(CourseAction):
    """The live board."""

    path = "courses/{course}/board"
    roles = STAFF

    @Operation(
        "The live board of a course: every student's session.", query=BoardQuery, sparse=True
    )
    async def on_get(self, course: str) -> BoardAnswer:
        """For the course's instructors and assistants; who only manages courses sees how sessions
        are, and nothing of what students do in them. Made from memory, at most every 1.5 seconds
        for all who watch. What a tile leaves out is its default."""
        board = await self.parts.boards.of(self.kept, private=self.role is not None)
        if self.query.version == board.version:
            return BoardAnswer(
                version=board.version, at=board.at, taken_at=board.taken_at, same=True
            )
        return BoardAnswer.model_validate(board.model_dump(exclude_defaults=True))


ENDPOINTS = (BoardOfCourse,)
