"""Queue that asks the Hub for the sessions of starts: a limited number at the same time, over all
courses, and nobody twice."""

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

from ..context import CourseContext
from .live_start import LiveStart, PendingRequests
from .seats import changed, in_turn, newest

_LATE = 60.0  # seconds that Slurm's answer is waited for; its commands are given up before
_PAUSES = (1.0, 30.0)  # seconds until the Hub is asked again after it said "later"; the most
_TRIES = 3  # how often one seat is asked for
_PATIENCE = 3600.0  # seconds that a seat waits for the Hub to take it
_RUNS = ("already running", "is pending")  # JupyterHub's words (apihandlers/users.py)
_DAY = 86400.0  # seconds; a clock may have shown another time when older sessions were submitted
_CHUNK, _INTRODUCED = 500, 20  # people in a request to the Hub; in one that asks the directory


class SpawnQueue:
    """Queue of requests. ``under_way``: requests to the Hub; ``orphans``: jobs being cancelled;
    ``later``: monotonic time before which nothing is asked. ``wake`` is set when more can be."""

    def __init__(self, context: CourseContext, wake: asyncio.Event) -> None:
        self._context, self._log, self._wake = context, context.log, wake
        self.under_way, self.orphans = PendingRequests(context.log), PendingRequests(context.log)
        self._filling = asyncio.Lock()
        self.later, self._pause = float("-inf"), _PAUSES[0]

    # -- whom the Hub knows, and what it has of them ---------------------------------------------

    def introduce(self, live: LiveStart) -> None:
        """Have the Hub create those who never logged in, beside the starts of those it knows."""
        if live.strangers and (live.introducing is None or live.introducing.done()):
            live.introducing = asyncio.ensure_future(self._introduced(live))

    async def _introduced(self, live: LiveStart) -> None:
        for batch in _some_of(sorted(live.strangers), _INTRODUCED):
            try:
                refused = await self._context.hub.make_people(batch)
            except PortalError as error:
                self._log.warning("The Hub could not create users; retrying: %s", error)
                return
            for name, words in refused.items():
                if name in live.seats and live.seats[name].state is SeatState.WAITING:
                    now = self._context.wall()
                    live.put(changed(live.seats[name], SeatState.FAILED, words, ended_at=now))
            live.strangers.difference_update(batch)
            self._wake.set()

    async def survey(self, live: LiveStart, now: float) -> None:
        """Ask the Hub about the servers of unknown state, in one request for all."""
        names = sorted(
            person
            for person in live.unsure
            if live.seats[person].state in (SeatState.WAITING, SeatState.STARTING)
            and not self.under_way.has(live, person)
        )
        for batch in _some_of(names, _CHUNK):
            states = await self._context.hub.servers(live.server, batch)
            lost = [
                live.seats[person]
                for person in batch
                if live.seats[person].state is SeatState.STARTING and not states.get(person)
            ]
            jobs = await self._jobs(live, lost)
            if jobs is None:  # Slurm is asked again: two jobs of one person are worse than a wait
                waiting = {seat.person for seat in lost}
                batch, jobs = [person for person in batch if person not in waiting], {}
            await self._note_others(live, [person for person in batch if not states.get(person)])
            for person in batch:
                if person not in states:
                    live.strangers.add(person)
                self._surveyed(live, person, states.get(person, ""), jobs.get(person, ()), now)
            live.unsure.difference_update(batch)

    def _surveyed(
        self, live: LiveStart, person: str, state: str, jobs: Sequence[Job], now: float
    ) -> None:
        seat = live.seats[person]
        if seat.state is SeatState.WAITING:
            if state:
                words = "Already running." if state == "ready" else "Already starting."
                live.put(changed(seat, SeatState.SKIPPED, words, ended_at=now))
        elif state:
            return  # the Hub has it: its record will tell
        elif jobs:
            self.orphans.begin(live, person, self._end_orphans(live, seat, jobs))
        else:
            self._again(live, seat)

    async def _note_others(self, live: LiveStart, people: Sequence[str]) -> None:
        """Note which sessions of these people, who have no server now, exist already: none of them
        is the one that the Hub is asked for next."""
        if not people:
            return
        store, since = self._context.store, max(0.0, live.since - _DAY)
        records = newest(await store.sessions.of_space(live.start.course, since), live.server)
        for person in people:
            live.before[person] = frozenset(record.id for record in records.get(person, ()))
            live.sessions.pop(person, None)

    async def _jobs(
        self, live: LiveStart, seats: Sequence[Seat]
    ) -> Mapping[str, Sequence[Job]] | None:
        """Return jobs of these people's servers that the Hub does not know, by owner; None if
        Slurm does not answer now.

        A Hub that dies between Slurm's answer and its own note of it leaves such a job: its
        session has nowhere to report to, and must not be beside the next one. Its submission time
        says nothing: that is Slurm's clock, and this machine's may be set. These people have no
        server, so a job that lives is of no session but one that the Hub is ending, whose record
        has not ended yet.
        """
        if not seats:
            return {}
        asked, moment = {seat.person for seat in seats}, time.monotonic()
        snapshot = await self._context.cluster.snapshot(moment, late=_LATE)
        if snapshot.asked_at is None or snapshot.asked_at < moment:
            return None
        records = await self._context.store.sessions.of_space(live.start.course, live.since)
        known = {record.job_id for record in records if record.state is not SessionState.ENDED}
        by_owner: dict[str, list[Job]] = {}
        for job in snapshot.jobs.values():
            ours = job.comment.startswith("portal:") and job.comment.endswith(f":{live.server}")
            if ours and job.user in asked and not job.state.ended and job.id not in known:
                by_owner.setdefault(job.user, []).append(job)
        return by_owner

    async def _end_orphans(self, live: LiveStart, seat: Seat, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                await self._context.control.cancel(job.id, job.user)
            except Conflict:
                self._log.debug("Job %s has ended", job.id)
            except PortalError as error:
                self._log.warning("Job %s of %s is not cancelled yet: %s", job.id, job.user, error)
                live.unsure.add(seat.person)
                return
        self._again(live, live.seats[seat.person])

    def _again(self, live: LiveStart, seat: Seat) -> None:
        """Ask again for a session of which the Hub has nothing, up to a number of tries."""
        tries = live.tries[seat.person] = live.tries.get(seat.person, 0) + 1
        if tries >= _TRIES:
            words = f"The Hub did not start a session after {tries} requests. {seat.message}"
            now = self._context.wall()
            live.put(changed(seat, SeatState.FAILED, words.strip(), ended_at=now))
        else:
            live.put(changed(seat, SeatState.WAITING, seat.message, asked_at=None))

    # -- starts ---------------------------------------------------------------------------------

    async def fill(self, starts: Mapping[int, LiveStart]) -> None:
        """Ask the Hub for as many as are allowed at the same time, over all courses."""
        async with self._filling:  # one after the other: nobody is chosen twice
            await self._fill(starts)

    async def _fill(self, starts: Mapping[int, LiveStart]) -> None:
        if time.monotonic() < self.later:
            return
        free = self._context.settings.at_once - len(self.under_way)
        ready = {id_: self._ready(live) for id_, live in starts.items()}
        chosen = in_turn(ready, free) if free > 0 else []
        if not chosen:
            return
        now = self._context.wall()
        marked = [changed(seat, SeatState.STARTING, asked_at=now) for seat in chosen]
        # Stored before anything is requested: a service that dies now must look these up.
        await self._context.store.starts.put(marked)
        for seat in marked:
            live = starts.get(seat.start_id)
            if live is None:
                continue
            if live.seats[seat.person].state is not SeatState.WAITING:
                live.put(live.seats[seat.person])  # called off meanwhile
                continue
            live.seats[seat.person] = seat
            live.asked[seat.person] = self._context.uptime()
            self.under_way.begin(live, seat.person, self._ask(live, seat))

    def _ready(self, live: LiveStart) -> dict[str, Seat]:
        """Return the seats of a start that may be requested."""
        not_yet = live.unsure | live.strangers
        return {
            person: seat
            for person, seat in live.seats.items()
            if person not in not_yet and not self.orphans.has(live, person)
        }

    async def _ask(self, live: LiveStart, seat: Seat) -> None:
        options = {"course": live.start.course}
        now = self._context.wall
        try:
            await self._context.hub.begin_server(seat.person, live.server, options)
            self._pause = _PAUSES[0]
            return
        except HubUnavailable:
            # It may have been asked, or not: that is looked up once it answers again.
            live.unsure.add(seat.person)
            self._wait(None)
            return
        except (TooManyRequests, Unavailable) as error:
            after = error.details.get("retry_after")
            self._wait(float(after) if after is not None else None)
            seat = changed(seat, SeatState.WAITING, error.message, asked_at=None)
            if self._context.uptime() - live.began > _PATIENCE:
                words = f"It did not start within an hour. {error.message}"
                seat = changed(seat, SeatState.FAILED, words, ended_at=now())
        except Conflict as error:
            if any(words in error.message for words in _RUNS):
                seat = changed(seat, SeatState.SKIPPED, "Already running.", ended_at=now())
            else:
                seat = changed(seat, SeatState.FAILED, error.message, ended_at=now())
        except NotFound:
            # Without the name, so that a report counts alike reasons together.
            words = "The Hub does not know this user: they must sign in once, or leave the course."
            seat = changed(seat, SeatState.FAILED, words, ended_at=now())
        except PortalError as error:
            seat = changed(seat, SeatState.FAILED, error.message, ended_at=now())
        if live.seats[seat.person].state is SeatState.STARTING:  # nobody called it off meanwhile
            live.put(seat)

    def _wait(self, seconds: float | None) -> None:
        """Ask nothing for ``seconds``; None: twice as long as the last time."""
        if time.monotonic() < self.later:
            return  # another one was told so at the same time
        if seconds is None:
            seconds = self._pause
            self._pause = min(2 * self._pause, _PAUSES[1])
        self.later = time.monotonic() + seconds


def _some_of(names: Sequence[str], most: int) -> list[Sequence[str]]:
    return [names[at : at + most] for at in range(0, len(names), most)]
