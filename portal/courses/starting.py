"""Starts sessions for a whole course: what is asked for is kept first, then worked off.

The service writes each seat as STARTING before it asks the Hub. After a restart of the service or
of the Hub, those are looked up at the Hub before anything is asked again, so nobody is started
twice. How far sessions are is read from their records, one question a look for each course.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.errors import (
    Conflict,
    HubUnavailable,
    InvalidRequest,
    NotFound,
    PortalError,
    TooManyRequests,
    Unavailable,
)
from portal.models.audit import Outcome
from portal.models.cluster import Job
from portal.models.course import KeptCourse, Role
from portal.models.course_start import (
    OVER,
    CourseStart,
    Seat,
    SeatState,
    StartKind,
)
from portal.models.stop_reason import StopCode, StopReason

from .around import Around
from .calendar import Meeting
from .rehearsal import due_to_end, report
from .seats import LIVE, changed, in_turn, newest, seen, server_of, session_of

_PAUSES = (1.0, 30.0)  # seconds until the Hub is asked again after it said "later"; the most
_SILENCE = 15.0  # seconds after which a session of which nothing is known is looked up at the Hub
_TRIES = 3  # how often one seat is asked for
_PATIENCE = 3600.0  # seconds that a seat waits for the Hub to take it
_FOLLOWED = 12 * 3600.0  # seconds that a start is looked after at most
_QUIET = 10.0  # seconds between two looks at sessions that only wait for somebody to come
_RUNS = ("already running", "is pending")  # JupyterHub's words (apihandlers/users.py)
_CHUNK, _INTRODUCED = 500, 20  # people in one question to the Hub; in one that asks the directory


@dataclass
class _Live:
    """A start that is worked off, as it is kept."""

    start: CourseStart
    seats: dict[str, Seat]
    unsure: set[str] = field(default_factory=set)  # whose servers the Hub is asked for first
    strangers: set[str] = field(default_factory=set)  # whom the Hub may not know yet
    tries: dict[str, int] = field(default_factory=dict)
    unsaved: set[str] = field(default_factory=set)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    called_off: bool = False
    introducing: asyncio.Task[None] | None = None
    looked_at: float = float("-inf")

    @property
    def server(self) -> str:
        return server_of(self.start.course, self.start.kind)

    def some(self, *states: SeatState) -> list[Seat]:
        return [one for one in self.seats.values() if one.state in states]


class Starter:
    """One a service. ``start`` and ``cancel`` raise StoreUnavailable; ``look`` is the loop's."""

    def __init__(self, around: Around) -> None:
        self._around, self._log = around, around.log
        self._live: dict[int, _Live] | None = None  # None: not read from the database yet
        self._reading, self._beginning = asyncio.Lock(), asyncio.Lock()
        self._asking: dict[tuple[int, str], asyncio.Task[None]] = {}
        self._stopping: dict[tuple[int, str], asyncio.Task[None]] = {}
        self._later, self._pause = float("-inf"), _PAUSES[0]  # by the monotonic clock
        self.wake = asyncio.Event()

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
            seats = [_first(person, person in under_way) for person in chosen]
            start = await self._around.store.starts.add(start, seats)
            mine = [one.model_copy(update={"start_id": start.id}) for one in seats]
            waiting = {one.person for one in seats if one.state is SeatState.WAITING}
            live[start.id] = _Live(start, {one.person: one for one in mine}, unsure=waiting)
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
            self._set(one, changed(seat, SeatState.SKIPPED, words, ended_at=now))
        await self._save(one)
        self.wake.set()
        return len(waiting)

    async def end_all(self, course: str, words: str) -> None:
        """The course is over: ask for no more of its starts."""
        now = self._around.wall()
        for one in list((await self._read()).values()):
            if one.start.course != course:
                continue
            for seat in one.some(*LIVE):
                self._set(one, changed(seat, SeatState.SKIPPED, words, ended_at=now))
            await self._save(one)
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
        await self._fill()
        if complaints:
            raise complaints[0]

    @property
    def busy(self) -> bool:
        """Whether anything is to be looked at soon."""
        return bool(self._live)

    async def close(self) -> None:
        """Let go of what is under way; the next service looks it up."""
        tasks = [*self._asking.values(), *self._stopping.values()]
        tasks += [one.introducing for one in (self._live or {}).values() if one.introducing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> dict[int, _Live]:
        """What is to be worked off. After a restart, the Hub is asked about all of it first."""
        async with self._reading:
            if self._live is None:
                starts = await self._around.store.starts.live()
                seats = await self._around.store.starts.seats(*(one.id for one in starts))
                found: dict[int, _Live] = {}
                for start in starts:
                    own = {one.person: one for one in seats if one.start_id == start.id}
                    known = found[start.id] = _Live(start, own)
                    left = known.some(SeatState.WAITING, SeatState.STARTING)
                    known.unsure = {one.person for one in left}
                self._live = found
        return self._live

    async def _go_on(self, one: _Live, now: float) -> None:
        await self._save(one)  # what the database did not take last time
        await self._survey(one, now)
        self._introduce(one)
        await self._follow(one, now)
        await self._release(one, now)
        await self._save(one)
        if all(seat.state in self._last(one.start) for seat in one.seats.values()):
            await self._end(one, now)
        elif now - one.start.asked_at > _FOLLOWED:
            await self._end(one, now, "Nobody looked after it any longer.")

    @staticmethod
    def _last(start: CourseStart) -> Collection[SeatState]:
        return OVER | {SeatState.READY} if start.kind is StartKind.ALL else OVER

    async def _end(self, one: _Live, now: float, message: str = "") -> None:
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

    def _introduce(self, one: _Live) -> None:
        """Have the Hub know those who never logged in, beside the starts of those it knows."""
        if one.strangers and (one.introducing is None or one.introducing.done()):
            one.introducing = asyncio.ensure_future(self._introduced(one))

    async def _introduced(self, one: _Live) -> None:
        for some in _some_of(sorted(one.strangers), _INTRODUCED):
            try:
                refused = await self._around.hub.make_people(some)
            except PortalError as error:
                self._log.warning("The Hub makes people known later: %s", error)
                return
            for name, words in refused.items():
                if name in one.seats and one.seats[name].state is SeatState.WAITING:
                    now = self._around.wall()
                    self._set(one, changed(one.seats[name], SeatState.FAILED, words, ended_at=now))
            one.strangers.difference_update(some)
            self.wake.set()

    async def _survey(self, one: _Live, now: float) -> None:
        """Ask the Hub about the servers of which nothing is known; one question for all."""
        names = sorted(
            person
            for person in one.unsure
            if one.seats[person].state in (SeatState.WAITING, SeatState.STARTING)
            and (one.start.id, person) not in self._asking
        )
        for some in _some_of(names, _CHUNK):
            states = await self._around.hub.servers(one.server, some)
            lost = [
                one.seats[person]
                for person in some
                if one.seats[person].state is SeatState.STARTING and not states.get(person)
            ]
            jobs = await self._jobs(one, lost, now)
            for person in some:
                if person not in states:
                    one.strangers.add(person)
                self._surveyed(one, person, states.get(person, ""), jobs.get(person), now)
            one.unsure.difference_update(some)

    def _surveyed(self, one: _Live, person: str, state: str, job: Job | None, now: float) -> None:
        seat = one.seats[person]
        if seat.state is SeatState.WAITING:
            if state:
                words = "One ran already." if state == "ready" else "One was starting already."
                self._set(one, changed(seat, SeatState.SKIPPED, words, ended_at=now))
        elif state:
            return  # the Hub has it: its record will tell
        elif job is not None:
            self._keep(self._stopping, one, person, self._end_orphan(one, seat, job))
        else:
            self._again(one, seat)

    async def _jobs(self, one: _Live, seats: Sequence[Seat], now: float) -> Mapping[str, Job]:
        """Jobs of these people's servers that the Hub does not know, by owner.

        A Hub that dies between Slurm's answer and its own note of it leaves such a job: its
        session has nowhere to report to, and must not be beside the next one.
        """
        if not seats:
            return {}
        asked = {seat.person: seat.asked_at or now for seat in seats}
        records = await self._around.store.sessions.of_course(one.start.course, min(asked.values()))
        known = {record.job_id for record in records}
        snapshot = await self._around.cluster.snapshot(now)
        return {
            job.user: job
            for job in snapshot.jobs.values()
            if job.user in asked
            and not job.state.ended
            and job.id not in known
            and job.comment.startswith("portal:")
            and job.comment.endswith(f":{one.server}")
            and (job.submit_time or 0) >= asked[job.user] // 1
        }

    async def _end_orphan(self, one: _Live, seat: Seat, job: Job) -> None:
        try:
            await self._around.control.cancel(job.id, job.user)
        except Conflict:
            self._log.debug("Job %s is over", job.id)
        except PortalError as error:
            self._log.warning("Job %s of %s could not be cancelled: %s", job.id, job.user, error)
            one.unsure.add(seat.person)
            return
        self._again(one, one.seats[seat.person])

    def _again(self, one: _Live, seat: Seat) -> None:
        """The Hub has nothing of it: ask again, but not for ever."""
        tries = one.tries[seat.person] = one.tries.get(seat.person, 0) + 1
        if tries >= _TRIES:
            words = f"The Hub was asked {tries} times, and no session came of it."
            now = self._around.wall()
            self._set(one, changed(seat, SeatState.FAILED, words, ended_at=now))
        else:
            self._set(one, changed(seat, SeatState.WAITING, asked_at=None))

    # -- asking ---------------------------------------------------------------------------------

    async def _fill(self) -> None:
        """Ask the Hub for as many as may be asked at the same time, over all courses."""
        if self._live is None or time.monotonic() < self._later:
            return
        free = self._around.settings.at_once - len(self._asking)
        ready = {
            id_: {
                person: seat
                for person, seat in one.seats.items()
                if person not in one.unsure | one.strangers and (id_, person) not in self._stopping
            }
            for id_, one in self._live.items()
        }
        chosen = in_turn(ready, free) if free > 0 else []
        if not chosen:
            return
        now = self._around.wall()
        marked = [changed(seat, SeatState.STARTING, asked_at=now) for seat in chosen]
        # Kept before anything is asked: a service that dies now must look these up.
        await self._around.store.starts.put(marked)
        for seat in marked:
            one = self._live[seat.start_id]
            one.seats[seat.person] = seat
            self._keep(self._asking, one, seat.person, self._ask(one, seat))

    def _keep(
        self,
        where: dict[tuple[int, str], asyncio.Task[None]],
        one: _Live,
        person: str,
        work: Coroutine[Any, Any, None],
    ) -> None:
        key = (one.start.id, person)

        def done(task: asyncio.Task[None]) -> None:
            where.pop(key, None)
            if not task.cancelled() and task.exception() is not None:
                self._log.error("Starting %s failed", person, exc_info=task.exception())
                one.unsure.add(person)
            self.wake.set()

        task = where[key] = asyncio.ensure_future(work)
        task.add_done_callback(done)

    async def _ask(self, one: _Live, seat: Seat) -> None:
        options = {"course": one.start.course}
        now = self._around.wall
        try:
            await self._around.hub.begin_server(seat.person, one.server, options)
            self._pause = _PAUSES[0]
            return
        except HubUnavailable:
            # It may have been asked, or not: that is looked up once it answers again.
            one.unsure.add(seat.person)
            self._wait(None)
            return
        except (TooManyRequests, Unavailable) as error:
            after = error.details.get("retry_after")
            self._wait(float(after) if after is not None else None)
            seat = changed(seat, SeatState.WAITING, error.message, asked_at=None)
            if now() - one.start.asked_at > _PATIENCE:
                words = f"It was tried for an hour. {error.message}"
                seat = changed(seat, SeatState.FAILED, words, ended_at=now())
        except Conflict as error:
            if any(words in error.message for words in _RUNS):
                seat = changed(seat, SeatState.SKIPPED, "One ran already.", ended_at=now())
            else:
                seat = changed(seat, SeatState.FAILED, error.message, ended_at=now())
        except NotFound:
            words = f"The Hub does not know {seat.person}: they log in once, or leave the course."
            seat = changed(seat, SeatState.FAILED, words, ended_at=now())
        except PortalError as error:
            seat = changed(seat, SeatState.FAILED, error.message, ended_at=now())
        if one.seats[seat.person].state is SeatState.STARTING:  # nobody called it off meanwhile
            self._set(one, seat)

    def _wait(self, seconds: float | None) -> None:
        """Ask nothing for so long, or twice as long as the last time."""
        if time.monotonic() < self._later:
            return  # another one was told so at the same time
        if seconds is None:
            seconds = self._pause
            self._pause = min(2 * self._pause, _PAUSES[1])
        self._later = time.monotonic() + seconds

    # -- following ------------------------------------------------------------------------------

    async def _follow(self, one: _Live, now: float) -> None:
        """Read how far the sessions are."""
        starting, ready = one.some(SeatState.STARTING), one.some(SeatState.READY)
        due = one.start.release_at is not None and now >= one.start.release_at
        wait = 0.0 if starting or due else _QUIET
        if not (starting or ready) or now - one.looked_at < wait:
            return
        store, course = self._around.store, one.start.course
        records = newest(
            await store.sessions.of_course(course, one.start.asked_at - 60), one.server
        )
        there = {}
        if one.start.release_at is not None and ready:
            there = {seat.person: seat for seat in await store.presence.of(course)}
        one.looked_at = now
        for seat in (*starting, *ready):
            record = session_of(seat, records.get(seat.person, ()))
            after = seen(seat, record, there.get(seat.person), now)
            if after is not seat:
                self._set(one, after)
            asking = (one.start.id, seat.person) in self._asking
            silent = now - (seat.asked_at or now) > _SILENCE
            if record is None and silent and not asking and seat.state is SeatState.STARTING:
                one.unsure.add(seat.person)

    async def _release(self, one: _Live, now: float) -> None:
        """Stop what nobody has claimed in time, and rehearsals that have shown what they could."""
        start, waiting = one.start, one.some(SeatState.WAITING)
        if due_to_end(start, list(one.seats.values()), now) or (
            start.kind is StartKind.REHEARSAL and one.called_off
        ):
            late = "It was not ready within 15 minutes."
            for seat in waiting:
                self._set(one, changed(seat, SeatState.FAILED, late, ended_at=now))
            state = SeatState.SKIPPED if one.called_off else SeatState.FAILED
            reason = StopReason(code=StopCode.REHEARSED, words="The rehearsal is over.")
            self._stop(one, one.some(SeatState.READY), reason, SeatState.RELEASED, reason.words)
            self._stop(one, one.some(SeatState.STARTING), reason, state, late)
        elif start.release_at is not None and now >= start.release_at:
            for seat in waiting:
                late = f"It could not be started in time. {seat.message}".strip()
                self._set(one, changed(seat, SeatState.FAILED, late, ended_at=now))
            words = "Its meeting has begun, and nobody opened it."
            reason = StopReason(code=StopCode.UNCLAIMED, words=words)
            unclaimed = one.some(SeatState.STARTING, SeatState.READY)
            self._stop(one, unclaimed, reason, SeatState.RELEASED, words)

    def _stop(
        self,
        one: _Live,
        seats: Sequence[Seat],
        reason: StopReason,
        state: SeatState,
        words: str,
    ) -> None:
        """Have the Hub stop these, and bring them into ``state`` then. Those for whom there is no
        room now, and what fails, are tried again at the next look."""
        free = self._around.settings.at_once - len(self._stopping)
        for seat in seats:
            key = (one.start.id, seat.person)
            if free > 0 and key not in self._stopping and key not in self._asking:
                free -= 1
                over = changed(seat, state, words)
                self._keep(self._stopping, one, seat.person, self._stop_one(one, over, reason))

    async def _stop_one(self, one: _Live, over: Seat, reason: StopReason) -> None:
        try:
            await self._around.hub.stop_server(over.person, one.server, reason=reason)
        except NotFound:
            self._log.debug("The session of %s is over", over.person)
        except PortalError as error:
            self._log.warning("The session of %s goes on: %s", over.person, error)
            return
        if one.seats[over.person].state in LIVE:
            ready_at = one.seats[over.person].ready_at
            times = {"ready_at": ready_at, "ended_at": self._around.wall()}
            self._set(one, over.model_copy(update=times))

    # -- keeping --------------------------------------------------------------------------------

    def _set(self, one: _Live, *seats: Seat) -> None:
        for seat in seats:
            one.seats[seat.person] = seat
            one.unsaved.add(seat.person)

    async def _save(self, one: _Live) -> None:
        async with one.saving:  # in this order
            names, one.unsaved = one.unsaved, set()
            try:
                await self._around.store.starts.put([one.seats[name] for name in sorted(names)])
            except PortalError:
                one.unsaved |= names
                raise


def _some_of(names: Sequence[str], most: int) -> list[Sequence[str]]:
    return [names[at : at + most] for at in range(0, len(names), most)]


def _chosen(
    students: list[str], members: set[str], people: Collection[str] | None, number: int | None
) -> list[str]:
    if people is None:
        return students if number is None else students[:number]
    strangers = sorted(set(people) - members)
    if strangers:
        raise InvalidRequest(f"{strangers[0]} is not in this course.", "people")
    return sorted(set(people))


def _first(person: str, under_way: bool) -> Seat:
    if under_way:
        words = "Its start is under way already."
        return Seat(start_id=0, person=person, state=SeatState.SKIPPED, message=words)
    return Seat(start_id=0, person=person)
