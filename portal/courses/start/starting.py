"""Starts of sessions for a whole course: requests are stored first, then worked off.

The service stores each seat as STARTING before it asks the Hub. After a restart of the service or
of the Hub, those are looked up at the Hub before anything is asked again, so nobody is started
twice. Progress is read from the sessions' records, one query a look for each course.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from portal.errors import Conflict, InvalidRequest, PortalError
from portal.models.audit import Outcome
from portal.models.course.audit import CourseAudit
from portal.models.course.course import StoredCourse
from portal.models.course.start import OVER, CourseStart, Seat, SeatState, StartKind
from portal.models.space import Role

from ..context import CourseContext
from ..definition.calendar import Meeting
from ..roster.joining import NOT_JOINED, not_joined
from .live_start import LiveStart
from .progress import StartProgress
from .rehearsal import report
from .seats import LIVE, changed, server_of
from .spawn_queue import SpawnQueue

_FOLLOWED = 12 * 3600.0  # maximum seconds for which a start is followed


class Starter:
    """Starts of courses; one instance a service. ``start`` and ``cancel`` raise StoreUnavailable;
    ``look`` is for the loop."""

    def __init__(self, context: CourseContext) -> None:
        self._context, self._log = context, context.log
        self._live: dict[int, LiveStart] | None = None  # None: not read from the database yet
        self._reading, self._beginning = asyncio.Lock(), asyncio.Lock()
        self.wake = asyncio.Event()
        self.queue = SpawnQueue(context, self.wake)
        self.progress = StartProgress(context, self.queue.under_way)
        self.refill = Refill(self)

    @property
    def live(self) -> Collection[LiveStart]:
        """Starts in progress, as far as they have been read."""
        return (self._live or {}).values()

    # -- what is asked for ----------------------------------------------------------------------

    async def start(
        self,
        stored: StoredCourse,
        kind: StartKind,
        by: str,
        people: Collection[str] | None = None,
        number: int | None = None,
        meeting: Meeting | None = None,
        release_at: float | None = None,
        missing: Sequence[str] = (),
    ) -> CourseStart:
        """Store a start of sessions, which the loop works off from then on, and return at once.

        It is for every student if ``people`` is None, or for the first ``number`` by name.
        ``release_at`` (Unix seconds): when sessions that nobody has opened are stopped;
        ``missing``: what is not ready, for the report. Raises Conflict if one of this kind is
        under way, InvalidRequest for people who are not in the course.
        """
        members = await self._context.store.members.of_space(stored.name)
        students = [entry.person for entry in members if entry.role is Role.STUDENT]
        chosen = _chosen(students, {entry.person for entry in members}, people, number)
        if not chosen:
            raise InvalidRequest("This course has no students.")
        async with self._beginning:
            live = await self._read()
            same = [entry for entry in live.values() if entry.start.course == stored.name]
            if any(entry.start.kind is kind for entry in same) and kind is not StartKind.MEETING:
                raise Conflict(
                    "A start of this kind is already in progress. Wait until it ends, or cancel it."
                )
            start = CourseStart(
                course=stored.name,
                kind=kind,
                by=by,
                asked_at=self._context.wall(),
                meeting_at=meeting.begins if meeting else None,
                release_at=release_at,
                message="\n".join(missing),
            )
            server = server_of(stored.name, kind)
            under_way = {
                seat.person
                for entry in same
                if entry.server == server
                for seat in entry.some(SeatState.WAITING, SeatState.STARTING)
            }
            absent = {entry.person for entry in members if not_joined(stored.course, entry)}
            seats = [_first(person, person in under_way, person in absent) for person in chosen]
            start = await self._context.store.starts.add_start(start, seats)
            stored_seats = [entry.model_copy(update={"start_id": start.id}) for entry in seats]
            waiting = {entry.person for entry in seats if entry.state is SeatState.WAITING}
            own, began = {entry.person: entry for entry in stored_seats}, self._context.uptime()
            live[start.id] = LiveStart(start, own, began, unsure=waiting)
        self.wake.set()
        return start

    async def cancel(self, start: CourseStart, by: str) -> int:
        """Ask for no more of it; return how many sessions were called off. Those of a rehearsal
        are stopped, others stay. Raises Conflict if the start is over."""
        live = (await self._read()).get(start.id)
        if live is None:
            raise Conflict("This start has ended.")
        now, waiting = self._context.wall(), live.some(SeatState.WAITING)
        words, live.called_off = f"Cancelled by {by}.", True
        for seat in waiting:
            live.put(changed(seat, SeatState.SKIPPED, words, ended_at=now))
        await live.save(self._context.store)
        self.wake.set()
        return len(waiting)

    async def end_all(self, course: str, words: str) -> None:
        """End the starts of a course that is over; no more is asked for."""
        now = self._context.wall()
        for live in list((await self._read()).values()):
            if live.start.course != course:
                continue
            for seat in live.some(*LIVE):
                live.put(changed(seat, SeatState.SKIPPED, words, ended_at=now))
            await live.save(self._context.store)
            await self._end(live, now, words)

    # -- the loop -------------------------------------------------------------------------------

    async def run_due(self, now: float) -> None:
        """Continue every start. Raises StoreUnavailable and HubUnavailable: retry later."""
        complaints: list[PortalError] = []
        for live in list((await self._read()).values()):
            try:
                await self._go_on(live, now)
            except PortalError as error:  # this start's; the others go on
                complaints.append(error)
            except Exception:
                self._log.exception("A start of the course %s failed", live.start.course)
        await self.fill()
        if complaints:
            raise complaints[0]

    async def fill(self) -> None:
        """Ask the Hub for as many as may be asked now. Raises StoreUnavailable."""
        await self.queue.fill(await self._read())

    async def close(self) -> None:
        """Cancel what is under way; the next service looks it up."""
        for task in self._introducing():
            task.cancel()
        await asyncio.gather(*self._introducing(), return_exceptions=True)
        for piece in (self.queue.under_way, self.queue.orphans, self.progress.stops):
            await piece.close()

    async def settled(self) -> None:
        """Wait until everything that ``look`` began is done."""
        await asyncio.gather(*self._introducing())
        for piece in (self.queue.under_way, self.queue.orphans, self.progress.stops):
            await piece.settled()

    def _introducing(self) -> list[asyncio.Task[None]]:
        return [live.introducing for live in (self._live or {}).values() if live.introducing]

    async def _read(self) -> dict[int, LiveStart]:
        """Return the starts in progress. After a restart, the Hub is first asked about all."""
        async with self._reading:
            if self._live is None:
                starts = await self._context.store.starts.live()
                seats = await self._context.store.starts.seats(*(entry.id for entry in starts))
                now, uptime = self._context.wall(), self._context.uptime()
                live: dict[int, LiveStart] = {}
                for start in starts:
                    own = {entry.person: entry for entry in seats if entry.start_id == start.id}
                    began = uptime - max(0.0, now - start.asked_at)
                    known = live[start.id] = LiveStart(start, own, began)
                    left = known.some(SeatState.WAITING, SeatState.STARTING)
                    known.unsure = {entry.person for entry in left}
                self._live = live
        return self._live

    async def _go_on(self, live: LiveStart, now: float) -> None:
        live.seen(now, self._context.uptime())
        await live.save(self._context.store)  # what the database did not take last time
        await self.queue.survey(live, now)
        self.queue.introduce(live)
        await self.progress.follow(live, now)
        await self.progress.release(live, now)
        await live.save(self._context.store)
        if all(seat.state in self._last(live.start) for seat in live.seats.values()):
            await self._end(live, now)
        elif self._context.uptime() - live.began > _FOLLOWED:
            await self._end(live, now, "The portal stopped tracking the start after 12 hours.")

    @staticmethod
    def _last(start: CourseStart) -> Collection[SeatState]:
        return OVER | {SeatState.READY} if start.kind is StartKind.ALL else OVER

    async def _end(self, live: LiveStart, now: float, message: str = "") -> None:
        await self._context.store.starts.end(live.start.id, now, message)
        if self._live is None or self._live.pop(live.start.id, None) is None:
            return
        summary = report(live.start, list(live.seats.values()))
        await self._context.noted(
            CourseAudit.COURSE_START_ENDED,
            live.start.course,
            f"{summary.ready} of {summary.total} sessions were ready, {summary.failed} failed. "
            f"{message}",
            outcome=Outcome.DONE,
        )


class Refill:
    """Request of the next seats as soon as some are answered, without a look at all others."""

    def __init__(self, starter: Starter) -> None:
        self._starter, self.wake = starter, starter.queue.under_way.over

    async def run_due(self, now: float) -> None:
        """Fill the queue; see CourseLoop."""
        await self._starter.fill()


def _chosen(
    students: list[str], members: set[str], people: Collection[str] | None, number: int | None
) -> list[str]:
    if people is None:
        return students if number is None else students[:number]
    strangers = sorted(set(people) - members)
    if strangers:
        raise InvalidRequest(f"{strangers[0]} is not a member of this course.", "people")
    return sorted(set(people))


def _first(person: str, under_way: bool, absent: bool) -> Seat:
    if under_way or absent:
        words = NOT_JOINED if absent else "A start is already in progress."
        return Seat(start_id=0, person=person, state=SeatState.SKIPPED, message=words)
    return Seat(start_id=0, person=person)
