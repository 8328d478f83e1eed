"""Asks the Hub for the sessions of starts: so many at the same time, over all courses, and
nobody twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from portal.errors import (
    Conflict,
    HubUnavailable,
    NotFound,
    PortalError,
    TooManyRequests,
    Unavailable,
)
from portal.models.cluster.cluster import Job
from portal.models.course.start import Seat, SeatState
from portal.models.session.session import SessionState

from ..context import Around
from .live_start import LiveStart, UnderWay
from .seats import changed, in_turn, newest

_LATE = 60.0  # seconds that Slurm's answer is waited for; its commands are given up before
_PAUSES = (1.0, 30.0)  # seconds until the Hub is asked again after it said "later"; the most
_TRIES = 3  # how often one seat is asked for
_PATIENCE = 3600.0  # seconds that a seat waits for the Hub to take it
_RUNS = ("already running", "is pending")  # JupyterHub's words (apihandlers/users.py)
_DAY = 86400.0  # seconds; a clock may have shown another time when older sessions were submitted
_CHUNK, _INTRODUCED = 500, 20  # people in one question to the Hub; in one that asks the directory


class Asking:
    """``under_way``: the questions to the Hub; ``orphans``: jobs that are being ended; ``later``:
    nothing is asked before that, by the monotonic clock. ``wake`` is set when more can be."""

    def __init__(self, around: Around, wake: asyncio.Event) -> None:
        self._around, self._log, self._wake = around, around.log, wake
        self.under_way, self.orphans = UnderWay(around.log), UnderWay(around.log)
        self._filling = asyncio.Lock()
        self.later, self._pause = float("-inf"), _PAUSES[0]

    # -- whom the Hub knows, and what it has of them ---------------------------------------------

    def introduce(self, one: LiveStart) -> None:
        """Have the Hub know those who never logged in, beside the starts of those it knows."""
        if one.strangers and (one.introducing is None or one.introducing.done()):
            one.introducing = asyncio.ensure_future(self._introduced(one))

    async def _introduced(self, one: LiveStart) -> None:
        for some in _some_of(sorted(one.strangers), _INTRODUCED):
            try:
                refused = await self._around.hub.make_people(some)
            except PortalError as error:
                self._log.warning("The Hub makes people known later: %s", error)
                return
            for name, words in refused.items():
                if name in one.seats and one.seats[name].state is SeatState.WAITING:
                    now = self._around.wall()
                    one.put(changed(one.seats[name], SeatState.FAILED, words, ended_at=now))
            one.strangers.difference_update(some)
            self._wake.set()

    async def survey(self, one: LiveStart, now: float) -> None:
        """Ask the Hub about the servers of which nothing is known; one question for all."""
        names = sorted(
            person
            for person in one.unsure
            if one.seats[person].state in (SeatState.WAITING, SeatState.STARTING)
            and not self.under_way.has(one, person)
        )
        for some in _some_of(names, _CHUNK):
            states = await self._around.hub.servers(one.server, some)
            lost = [
                one.seats[person]
                for person in some
                if one.seats[person].state is SeatState.STARTING and not states.get(person)
            ]
            jobs = await self._jobs(one, lost)
            if jobs is None:  # Slurm is asked again: two jobs of one person are worse than a wait
                waiting = {seat.person for seat in lost}
                some, jobs = [person for person in some if person not in waiting], {}
            await self._note_others(one, [person for person in some if not states.get(person)])
            for person in some:
                if person not in states:
                    one.strangers.add(person)
                self._surveyed(one, person, states.get(person, ""), jobs.get(person, ()), now)
            one.unsure.difference_update(some)

    def _surveyed(
        self, one: LiveStart, person: str, state: str, jobs: Sequence[Job], now: float
    ) -> None:
        seat = one.seats[person]
        if seat.state is SeatState.WAITING:
            if state:
                words = "One ran already." if state == "ready" else "One was starting already."
                one.put(changed(seat, SeatState.SKIPPED, words, ended_at=now))
        elif state:
            return  # the Hub has it: its record will tell
        elif jobs:
            self.orphans.begin(one, person, self._end_orphans(one, seat, jobs))
        else:
            self._again(one, seat)

    async def _note_others(self, one: LiveStart, people: Sequence[str]) -> None:
        """Note which sessions of these people, who have no server now, are there already: none of
        them will be the one that the Hub is asked for next."""
        if not people:
            return
        store, since = self._around.store, max(0.0, one.since - _DAY)
        records = newest(await store.sessions.of_course(one.start.course, since), one.server)
        for person in people:
            one.before[person] = frozenset(record.id for record in records.get(person, ()))
            one.sessions.pop(person, None)

    async def _jobs(
        self, one: LiveStart, seats: Sequence[Seat]
    ) -> Mapping[str, Sequence[Job]] | None:
        """Jobs of these people's servers that the Hub does not know, by owner; None where Slurm
        does not answer now.

        A Hub that dies between Slurm's answer and its own note of it leaves such a job: its
        session has nowhere to report to, and must not be beside the next one. When it was
        submitted says nothing: that is Slurm's clock, and this machine's may be set. These people
        have no server, so a job that lives is of no session but one that the Hub is ending: its
        record has not ended yet.
        """
        if not seats:
            return {}
        asked, moment = {seat.person for seat in seats}, time.monotonic()
        snapshot = await self._around.cluster.snapshot(moment, late=_LATE)
        if snapshot.asked_at is None or snapshot.asked_at < moment:
            return None
        records = await self._around.store.sessions.of_course(one.start.course, one.since)
        known = {record.job_id for record in records if record.state is not SessionState.ENDED}
        found: dict[str, list[Job]] = {}
        for job in snapshot.jobs.values():
            ours = job.comment.startswith("portal:") and job.comment.endswith(f":{one.server}")
            if ours and job.user in asked and not job.state.ended and job.id not in known:
                found.setdefault(job.user, []).append(job)
        return found

    async def _end_orphans(self, one: LiveStart, seat: Seat, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                await self._around.control.cancel(job.id, job.user)
            except Conflict:
                self._log.debug("Job %s is over", job.id)
            except PortalError as error:
                self._log.warning("Job %s of %s is not cancelled yet: %s", job.id, job.user, error)
                one.unsure.add(seat.person)
                return
        self._again(one, one.seats[seat.person])

    def _again(self, one: LiveStart, seat: Seat) -> None:
        """The Hub has nothing of it: ask again, but not for ever."""
        tries = one.tries[seat.person] = one.tries.get(seat.person, 0) + 1
        if tries >= _TRIES:
            words = f"The Hub was asked {tries} times, and no session came of it. {seat.message}"
            now = self._around.wall()
            one.put(changed(seat, SeatState.FAILED, words.strip(), ended_at=now))
        else:
            one.put(changed(seat, SeatState.WAITING, seat.message, asked_at=None))

    # -- starts ---------------------------------------------------------------------------------

    async def fill(self, live: Mapping[int, LiveStart]) -> None:
        """Ask the Hub for as many as may be asked at the same time, over all courses."""
        async with self._filling:  # one after the other: nobody is chosen twice
            await self._fill(live)

    async def _fill(self, live: Mapping[int, LiveStart]) -> None:
        if time.monotonic() < self.later:
            return
        free = self._around.settings.at_once - len(self.under_way)
        ready = {id_: self._ready(one) for id_, one in live.items()}
        chosen = in_turn(ready, free) if free > 0 else []
        if not chosen:
            return
        now = self._around.wall()
        marked = [changed(seat, SeatState.STARTING, asked_at=now) for seat in chosen]
        # Kept before anything is asked: a service that dies now must look these up.
        await self._around.store.starts.put(marked)
        for seat in marked:
            one = live.get(seat.start_id)
            if one is None:
                continue
            if one.seats[seat.person].state is not SeatState.WAITING:
                one.put(one.seats[seat.person])  # called off meanwhile
                continue
            one.seats[seat.person] = seat
            one.asked[seat.person] = self._around.uptime()
            self.under_way.begin(one, seat.person, self._ask(one, seat))

    def _ready(self, one: LiveStart) -> dict[str, Seat]:
        """Who of a start may be asked for."""
        not_yet = one.unsure | one.strangers
        return {
            person: seat
            for person, seat in one.seats.items()
            if person not in not_yet and not self.orphans.has(one, person)
        }

    async def _ask(self, one: LiveStart, seat: Seat) -> None:
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
            if self._around.uptime() - one.began > _PATIENCE:
                words = f"It was tried for an hour. {error.message}"
                seat = changed(seat, SeatState.FAILED, words, ended_at=now())
        except Conflict as error:
            if any(words in error.message for words in _RUNS):
                seat = changed(seat, SeatState.SKIPPED, "One ran already.", ended_at=now())
            else:
                seat = changed(seat, SeatState.FAILED, error.message, ended_at=now())
        except NotFound:
            # Without the name, so that a report counts alike reasons together.
            words = "The Hub does not know them: they log in once, or leave the course."
            seat = changed(seat, SeatState.FAILED, words, ended_at=now())
        except PortalError as error:
            seat = changed(seat, SeatState.FAILED, error.message, ended_at=now())
        if one.seats[seat.person].state is SeatState.STARTING:  # nobody called it off meanwhile
            one.put(seat)

    def _wait(self, seconds: float | None) -> None:
        """Ask nothing for so long, or twice as long as the last time."""
        if time.monotonic() < self.later:
            return  # another one was told so at the same time
        if seconds is None:
            seconds = self._pause
            self._pause = min(2 * self._pause, _PAUSES[1])
        self.later = time.monotonic() + seconds


def _some_of(names: Sequence[str], most: int) -> list[Sequence[str]]:
    return [names[at : at + most] for at in range(0, len(names), most)]
