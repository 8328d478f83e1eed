"""What differs for sessions of courses in the Hub: meetings, their reservations, and grades."""

from __future__ import annotations

import time

from portal.courses.definition.calendar import meetings
from portal.courses.definition.sources import root_of
from portal.courses.schedule.next_meeting import next_meeting
from portal.courses.settings import Courses
from portal.launch.course import meeting
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.kind import Kind
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.course.course import Course

from .course_exchange import exchange_of
from .spaces import SpaceLaunch

_RESERVED = 2.0  # seconds for which the lack of a meeting's reservation is cached


class CourseLaunch(SpaceLaunch):
    """Launches in a course."""

    @property
    def course(self) -> Course:
        """Definition of the course."""
        assert isinstance(self.stored.space, Course)
        return self.stored.space

    async def snapshot(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return ``snapshot``, with reservations queried anew if a meeting is on and its own is not
        among them: a course that was approved a moment ago has one since then."""
        now, wanted = time.time(), self.course.reservation
        if not (wanted.nodes or wanted.gpus):
            return snapshot
        if meeting(self.course.name, snapshot.reservations, now):
            return snapshot
        if not meetings(self.course, now, now + 1):
            return snapshot
        fresh = await self.spawner.shared.cluster.reservations(time.monotonic() - _RESERVED)
        return snapshot.model_copy(update={"reservations": fresh})

    async def job_space(self, kind: Kind) -> CourseSpace:
        course, exchange = self.course, ""
        settings = self.spawner.shared.settings.get(Courses)
        if course.grades and kind.graded:
            place, account = settings.exchange_directory, self.spawner.account
            exchange = await exchange_of(place, course.name, account)
        return CourseSpace(
            name=course.name,
            title=course.title,
            role=self.role,
            data=course.data,
            data_root=root_of(course.data or "", settings.data_roots),
            exchange=exchange or None,
        )

    def upcoming(self, now: float) -> str:
        return next_meeting(self.course, now)

    def about(self, kind: type[Kind]) -> str:
        return (
            kind.about
            or "Your session of the course. Your work stays in the course's folder in your home."
        )
