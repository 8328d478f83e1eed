"""Services for the handlers: one object, made once by the service (portal/app)."""

from __future__ import annotations

from dataclasses import dataclass, field

from portal.errors import StoreUnavailable
from portal.models.session.session import SessionRecord

from .core import CoreServices
from .course_boards import CourseBoards
from .course_status import CourseSituations
from .course_work import CourseWork
from .open_collects import OpenCollects
from .session_status import Situations


@dataclass
class Services(CoreServices):
    """All services, with those that join several others for a page or a session."""

    open_collects: OpenCollects = field(init=False)
    boards: CourseBoards = field(init=False)
    course_work: CourseWork = field(init=False)
    situations: Situations = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.open_collects = OpenCollects(self)
        self.boards = CourseBoards(self)
        self.course_work = CourseWork(self)
        course_situations = CourseSituations(self, self._handout_of, self.open_collects.of_session)
        self.situations = Situations(self, course_situations)

    async def _handout_of(self, record: SessionRecord) -> str:
        """Return the revision of its course's handouts that a session should have now; "" if that
        is unknown, or can wait."""
        if await self.course_work.rush.waits(record):
            return ""
        try:
            return await self.handouts.newest(record.space)
        except StoreUnavailable:
            return ""
