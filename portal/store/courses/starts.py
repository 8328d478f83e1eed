"""Sessions started for a whole course, one seat per person, and reservations for its meetings.
Written by the service only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from portal.errors import NotFound
from portal.models.course.start import CourseStart, Seat, StartKind, StoredReservation

from ..engine.rows import ModelTable
from .tables import course_reservations, course_seats, course_starts


class CourseStartTable(ModelTable[CourseStart]):
    """The tables of starts and their seats. Every method raises StoreUnavailable."""

    table, model = course_starts, CourseStart

    async def add_start(self, start: CourseStart, seats: Sequence[Seat]) -> CourseStart:
        """Insert a new start and its seats, in one transaction; return it with its id."""
        insert = course_starts.insert().values(start.model_dump(exclude={"id"}))

        def keep(to: Connection) -> CourseStart:
            stored = self._made(to.execute(insert.returning(course_starts)).one())
            rows = [{**seat.model_dump(), "start_id": stored.id} for seat in seats]
            if rows:
                to.execute(course_seats.insert(), rows)
            return stored

        return await self._database.run(keep, write=True)

    async def get(self, id_: int) -> CourseStart:
        """Return a start. Raises NotFound."""
        start = await self._first(select(course_starts).where(course_starts.c.id == id_))
        if start is None:
            raise NotFound("There is no such start.")
        return start

    async def of_course(self, course: str, limit: int = 50) -> list[CourseStart]:
        """Return the last starts of a course, newest first."""
        query = select(course_starts).where(course_starts.c.course == course)
        return await self._models(query.order_by(course_starts.c.id.desc()).limit(limit))

    async def newest(self, course: str) -> CourseStart | None:
        """Return the last start of a course that is no rehearsal; None if there is none."""
        query = select(course_starts).where(
            course_starts.c.course == course, course_starts.c.kind != StartKind.REHEARSAL.value
        )
        return await self._first(query.order_by(course_starts.c.id.desc()).limit(1))

    async def of_meeting(self, course: str, meeting_at: float) -> CourseStart | None:
        """Return the start for the meeting that begins at ``meeting_at`` (Unix seconds)."""
        query = select(course_starts).where(
            course_starts.c.course == course, course_starts.c.meeting_at == meeting_at
        )
        return await self._first(query.limit(1))

    async def live(self) -> list[CourseStart]:
        """Return the starts that have something left to do, oldest first."""
        query = select(course_starts).where(course_starts.c.ended_at.is_(None))
        return await self._models(query.order_by(course_starts.c.id))

    async def seats(self, *start_ids: int) -> list[Seat]:
        """Return the seats of these starts, ordered by start and name."""
        query = select(course_seats).where(course_seats.c.start_id.in_(start_ids))
        query = query.order_by(course_seats.c.start_id, course_seats.c.person)
        rows = await self._rows_of(query) if start_ids else []
        return [Seat.model_validate(row._asdict()) for row in rows]

    async def put(self, seats: Sequence[Seat]) -> None:
        """Insert or replace these seats; all or none."""
        statement = self._database.upsert(course_seats)
        rows = [seat.model_dump() for seat in seats]
        if rows:
            await self._write(statement, rows)

    async def end(self, id_: int, at: float, message: str = "") -> None:
        """End a start at ``at`` (Unix seconds): nothing is left to do. ``message`` replaces the
        one before, unless it is empty."""
        values: dict[str, Any] = {"ended_at": at, **({"message": message} if message else {})}
        statement = update(course_starts).where(course_starts.c.id == id_).values(**values)
        await self._write(statement)


class CourseReservationTable(ModelTable[StoredReservation]):
    """The table of reservations for meetings. Every method raises StoreUnavailable."""

    table, model = course_reservations, StoredReservation

    async def all(self, course: str | None = None) -> list[StoredReservation]:
        """Return the reservations of one course, or of all, ordered by name."""
        query = select(course_reservations).order_by(course_reservations.c.name)
        if course is not None:
            query = query.where(course_reservations.c.course == course)
        return await self._models(query)

    async def put(self, reservation: StoredReservation) -> None:
        """Insert a reservation, or replace the one of the same name."""
        await self._write(self._database.upsert(course_reservations), reservation.model_dump())

    async def remove(self, names: Collection[str]) -> None:
        """Delete these reservations."""
        statement = delete(course_reservations).where(course_reservations.c.name.in_(list(names)))
        await self._write(statement)
