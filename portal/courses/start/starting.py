"""Starts sessions for a whole course: what is asked for is kept first, then worked off.

The service writes each seat as STARTING before it asks the Hub. After a restart of the service or
of the Hub, those are looked up at the Hub before anything is asked again, so nobody is started
twice. How far sessions are is read from their records, one question a look for each course.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from portal.errors import Conflict, InvalidRequest, PortalError
from portal.models.audit import Outcome
from portal.models.course.course import KeptCourse, Role
from portal.models.course.start import OVER, CourseStart, Seat, SeatState, StartKind

from ..context import Around
from ..definition.calendar import Meeting
from ..roster.joining import NOT_JOINED, not_joined
from .live_start import LiveStart
from .progress import Following
from .rehearsal import report
from .seats import LIVE, changed, server_of
from .spawn_queue import Asking

_FOLLOWED = 12 * 3600.0  # seconds that a start is looked after at most


class Starter:
    """One a service. ``start`` and ``cancel`` raise StoreUnavailable; ``look`` is the loop's."""

    def __init__(self, around: Around) -> None:
        self._around, self._log = around, around.log
        self._live: dict[int, LiveStart] | None = None  # None: not read from the database yet
        self._reading, self._beginning = asyncio.Lock(), asyncio.Lock()
        self.wake = asyncio.Event()
        self.asking = Asking(around, self.wake)
        self.following = Following(around, self.asking.under_way)
        self.refill = Refill(self)

    @property
    def live(self) -> Collection[LiveStart]:
        """What is worked off, as far as it has been read."""
        return (self._live or {}).values()

    # -- what is asked for ----------------------------------------------------------------------

    async def start(
        self,
        kept: KeptCourse,
        kind: StartKind,
        by: str,
        people: Collection[str] | None = None,
        number: int | None = None,
        meeting: Meeting | None = None,
        release_at: float | None = None,
        missing: Sequence[str] = (),
    ) -> CourseStart:
        """Keep a start of sessions, which the loop works off from then on; it returns at once.

        For every student where ``people`` is None, or for the first ``number`` by name.
        ``release_at`` (Unix seconds): when sessions that nobody has opened are stopped;
        ``missing``: what is not as it should be, for the report. Raises Conflict where one of this
        kind is under way, InvalidRequest for people who are not in the course.
        """
        members = await self._around.store.members.of(kept.name)
        students = [one.person for one in members if one.role is Role.STUDENT]
        chosen = _chosen(students, {one.person for one in members}, people, number)
        if not chosen:
            raise InvalidRequest("There is no student in this course to start a session for.")
        async with self._beginning:
            live = await self._read()
            same = [one for one in live.values() if one.start.course == kept.name]
            if any(one.start.kind is kind for one in same) and kind is not StartKind.MEETING:
                raise Conflict(
                    "Such a start of this course is under way. Wait for its end, or call it off."
                )
            start = CourseStart(
                course=kept.name,
                kind=kind,
                by=by,
                asked_at=self._around.wall(),
                meeting_at=meeting.begins if meeting else None,
                release_at=release_at,
                message="\n".join(missing),
            )
            server = server_of(kept.name, kind)
            under_way = {
                seat.person
                for one in same
                if one.server == server
                for seat in one.some(SeatState.WAITING, SeatState.STARTING)
            }
            absent = {one.person for one in members if not_joined(kept.course, one)}
            seats = [_first(person, person in under_way, person in absent) for person in chosen]
            start = await self._around.store.starts.add(start, seats)
            mine = [one.model_copy(update={"start_id": start.id}) for one in seats]
            waiting = {one.person for one in seats if one.state is SeatState.WAITING}
            own, began = {one.person: one for one in mine}, self._around.uptime()
            live[start.id] = LiveStart(start, own, began, unsure=waiting)
        self.wake.set()
        return start

    async def cancel(self, start: CourseStart, by: str) -> int:
        """Ask for no more of it; how many sessions were called off. Those of a rehearsal are
        stopped, others stay. Raises Conflict for a start that is over."""
        one = (await self._read()).get(start.id)
        if one is None:
            raise Conflict("This start is over.")
        now, waiting = self._around.wall(), one.some(SeatState.WAITING)
        words, one.called_off = f"{by} called it off.", True
        for seat in waiting:
            one.put(changed(seat, SeatState.SKIPPED, words, ended_at=now))
        await one.save(self._around.store)
        self.wake.set()
        return len(waiting)

    async def end_all(self, course: str, words: str) -> None:
        """The course is over: ask for no more of its starts."""
        now = self._around.wall()
        for one in list((await self._read()).values()):
            if one.start.course != course:
                continue
            for seat in one.some(*LIVE):
                one.put(changed(seat, SeatState.SKIPPED, words, ended_at=now))
            await one.save(self._around.store)
            await self._end(one, now, words)

    # -- the loop -------------------------------------------------------------------------------

    async def look(self, now: float) -> None:
        """Go on with every start. Raises StoreUnavailable and HubUnavailable: go on later."""
        complaints: list[PortalError] = []
        for one in list((await self._read()).values()):
            try:
                await self._go_on(one, now)
            except PortalError as error:  # this start's; the others go on
                complaints.append(error)
            except Exception:
                self._log.exception("A start of the course %s fails", one.start.course)
        await self.fill()
        if complaints:
            raise complaints[0]

    async def fill(self) -> None:
        """Ask the Hub for as many as may be asked now. Raises StoreUnavailable."""
        await self.asking.fill(await self._read())

    async def close(self) -> None:
        """Let go of what is under way; the next service looks it up."""
        for task in self._introducing():
            task.cancel()
        await asyncio.gather(*self._introducing(), return_exceptions=True)
        for piece in (self.asking.under_way, self.asking.orphans, self.following.stops):
            await piece.close()

    async def settled(self) -> None:
        """Until everything that ``look`` began is over."""
        await asyncio.gather(*self._introducing())
        for piece in (self.asking.under_way, self.asking.orphans, self.following.stops):
            await piece.settled()

    def _introducing(self) -> list[asyncio.Task[None]]:
        return [one.introducing for one in (self._live or {}).values() if one.introducing]

    async def _read(self) -> dict[int, LiveStart]:
        """What is to be worked off. After a restart, the Hub is asked about all of it first."""
        async with self._reading:
            if self._live is None:
                starts = await self._around.store.starts.live()
                seats = await self._around.store.starts.seats(*(one.id for one in starts))
                now, uptime = self._around.wall(), self._around.uptime()
                found: dict[int, LiveStart] = {}
                for start in starts:
                    own = {one.person: one for one in seats if one.start_id == start.id}
                    began = uptime - max(0.0, now - start.asked_at)
                    known = found[start.id] = LiveStart(start, own, began)
                    left = known.some(SeatState.WAITING, SeatState.STARTING)
                    known.unsure = {one.person for one in left}
                self._live = found
        return self._live

    async def _go_on(self, one: LiveStart, now: float) -> None:
        one.seen(now, self._around.uptime())
        await one.save(self._around.store)  # what the database did not take last time
        await self.asking.survey(one, now)
        self.asking.introduce(one)
        await self.following.follow(one, now)
        await self.following.release(one, now)
        await one.save(self._around.store)
        if all(seat.state in self._last(one.start) for seat in one.seats.values()):
            await self._end(one, now)
        elif self._around.uptime() - one.began > _FOLLOWED:
            await self._end(one, now, "Nobody looked after it any longer.")

    @staticmethod
    def _last(start: CourseStart) -> Collection[SeatState]:
        return OVER | {SeatState.READY} if start.kind is StartKind.ALL else OVER

    async def _end(self, one: LiveStart, now: float, message: str = "") -> None:
        await self._around.store.starts.end(one.start.id, now, message)
        if self._live is None or self._live.pop(one.start.id, None) is None:
            return
        told = report(one.start, list(one.seats.values()))
        await self._around.noted(
            "course-start-ended",
            one.start.course,
            f"{told.ready} of {told.total} sessions were ready, {told.failed} failed. {message}",
            outcome=Outcome.DONE,
        )


class Refill:
    """Asks for the next ones as soon as some are answered, without looking at all the others."""

    def __init__(self, starter: Starter) -> None:
        self._starter, self.wake = starter, starter.asking.under_way.over

    async def look(self, now: float) -> None:
        """See CourseLoop."""
        await self._starter.fill()


def _chosen(
    students: list[str], members: set[str], people: Collection[str] | None, number: int | None
) -> list[str]:
    if people is None:
        return students if number is None else students[:number]
    strangers = sorted(set(people) - members)
    if strangers:
        raise InvalidRequest(f"{strangers[0]} is not in this course.", "people")
    return sorted(set(people))


def _first(person: str, under_way: bool, absent: bool) -> Seat:
    if under_way or absent:
        words = NOT_JOINED if absent else "Its start is under way already."
        return Seat(start_id=0, person=person, state=SeatState.SKIPPED, message=words)
    return Seat(start_id=0, person=person)
