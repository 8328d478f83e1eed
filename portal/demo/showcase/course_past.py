"""Past of the demo's course: a meeting, its start and its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Delete, delete, select

from portal.courses.definition.calendar import meetings
from portal.errors import NotFound
from portal.models.course.start import CourseStart, Seat, SeatState, StartKind
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.usage import JobUsage
from portal.models.space import Role
from portal.store import Store
from portal.store.courses.tables import course_seats, course_starts

from .past import LIMIT, MINUTE, PREFIX, TITLES, Past, usage_of

BY = "demo"
"""User that asked for the made up start of a class."""
_WEEK = 7 * 86400.0
_OVER = 2 * 3600.0  # seconds since a meeting's end: nothing of it goes on


@dataclass(frozen=True)
class CoursePast(Past):
    """Past of a course."""

    start: CourseStart
    seats: list[Seat]

    async def write(self, store: Store) -> None:
        await super().write(store)
        await store.starts.add_start(self.start, self.seats)


async def newest_meeting(name: str, store: Store, now: float) -> CoursePast:
    """Return the past of the course ``name``: its newest meeting that is over. Raises NotFound,
    StoreUnavailable."""
    stored = await store.courses.get(name)
    members = await store.members.of_space(name)
    students = sorted(member.person for member in members if member.role is Role.STUDENT)
    ended = [
        meeting
        for meeting in meetings(stored.course, now - 2 * _WEEK, now)
        if meeting.ends < now - _OVER
    ]
    if not ended:
        raise NotFound(f"The course {name} has had no meeting yet.")
    return course_past(name, stored.course.account or name, students, ended[-1].begins)


def removal() -> Sequence[Delete]:
    """Return the statements that delete the made up start."""
    starts = select(course_starts.c.id).where(course_starts.c.by == BY)
    return (
        delete(course_seats).where(course_seats.c.start_id.in_(starts)),
        delete(course_starts).where(course_starts.c.by == BY),
    )


def course_past(course: str, account: str, students: list[str], meeting: float) -> CoursePast:
    """Return a meeting that began at ``meeting`` (Unix seconds) and is over; the last two of the
    ``students`` did not get or open a session."""
    sessions: list[SessionRecord] = []
    usage: list[JobUsage] = []
    start = CourseStart(
        course=course,
        kind=StartKind.MEETING,
        by=BY,
        asked_at=meeting - 10 * MINUTE,
        meeting_at=meeting,
        release_at=meeting + 30 * MINUTE,
        ended_at=meeting + 30 * MINUTE,
    )
    seats = []
    for number, student in enumerate(students):
        seat = _seat(student, number, len(students) - number, start)
        seats.append(seat)
        if seat.ready_at is not None:
            session = _session(seat, number, start, account, meeting)
            sessions.append(session)
            usage.extend(usage_of(session, 1, 0.3 + 0.02 * (number % 20), course=course))
    return CoursePast(sessions, usage, start, seats)


def _seat(student: str, number: int, left: int, start: CourseStart) -> Seat:
    """Return a student's seat. ``left``: how many students are left with this one."""
    ready = start.asked_at + 5 + 0.3 * number
    if left == 1:
        message = "The node failed on gpu03. Your files are safe: launch again."
        return Seat(
            start_id=0,
            person=student,
            state=SeatState.FAILED,
            message=message,
            asked_at=start.asked_at,
            ended_at=ready,
        )
    released = left == 2
    return Seat(
        start_id=0,
        person=student,
        state=SeatState.RELEASED if released else SeatState.CLAIMED,
        message="It was not opened." if released else "",
        asked_at=start.asked_at,
        ready_at=ready,
        ended_at=start.ended_at if released else ready + 12 * MINUTE,
    )


def _session(
    seat: Seat, number: int, start: CourseStart, account: str, meeting: float
) -> SessionRecord:
    claimed = seat.state is SeatState.CLAIMED
    ended = meeting + (90 + number % 7) * MINUTE if claimed else start.ended_at
    job = f"{PREFIX}{start.course}-{number + 1}"
    words = (
        "The meeting has ended."
        if claimed
        else "The session was stopped because it was not opened."
    )
    return SessionRecord(
        id=job,
        user=seat.person,
        server=f"course-{start.course}",
        account=f"{account} (example)",
        environment="jupyterlab",
        environment_title=TITLES["jupyterlab"],
        options={"course": start.course, "gpus": 1, "cpus": 1, "memory": "2G", "time": "2:00:00"},
        space=start.course,
        job_id=job,
        state=SessionState.ENDED,
        submitted_at=start.asked_at,
        started_at=start.asked_at + 2,
        ready_at=seat.ready_at,
        ended_at=ended,
        nodes=(f"gpu{1 + number % 4:02}",),
        ending_code="course_over" if claimed else "unclaimed",
        ending_message=words,
        peak_memory=900 + 17 * number,
        exit_code=0,
        time_limit=LIMIT,
    )
