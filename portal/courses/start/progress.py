"""How far sessions of a start are, and the end of those that nobody claims."""

from __future__ import annotations

from collections.abc import Sequence

from portal.errors import NotFound, PortalError
from portal.models.course.start import Seat, SeatState, StartKind
from portal.models.session.stop_reason import StopCode, StopReason

from ..context import Around
from .live_start import LiveStart, UnderWay
from .rehearsal import due_to_end
from .seats import LIVE, LOST, changed, lost, newest, seen, session_of

_SILENCE = 15.0  # seconds after which a session of which nothing is known is looked up at the Hub
_QUIET = 10.0  # seconds between two looks at sessions that only wait for somebody to come


class Following:
    """Reads the sessions' records. ``asking`` is what is being asked for; ``stops`` what ends."""

    def __init__(self, around: Around, asking: UnderWay) -> None:
        self._around, self._log, self._asking = around, around.log, asking
        self.stops = UnderWay(around.log)

    async def follow(self, one: LiveStart, now: float) -> None:
        """Read how far the sessions are."""
        starting, ready = one.some(SeatState.STARTING), one.some(SeatState.READY)
        uptime = self._around.uptime()
        wait = 0.0 if starting or one.due(now, uptime) else _QUIET
        if not (starting or ready) or uptime - one.looked_at < wait:
            return
        store, course = self._around.store, one.start.course
        records = newest(await store.sessions.of_course(course, one.since - 60), one.server)
        there = {}
        if one.start.release_at is not None and ready:
            there = {seat.person: seat for seat in await store.presence.of(course)}
        one.looked_at = uptime
        for seat in (*starting, *ready):
            person = seat.person
            known, before = one.sessions.get(person, ""), one.before.get(person, ())
            record = session_of(seat, records.get(person, ()), before, known)
            if record is not None:
                one.sessions[person] = record.id
            if lost(seat, record):
                # The Hub is asked about its server first, and for another once that is gone.
                one.put(changed(seat, SeatState.STARTING, LOST, ready_at=None))
                one.unsure.add(person)
                continue
            after = seen(seat, record, there.get(person), now)
            if after is not seat:
                one.put(after)
            asking = self._asking.has(one, person)
            silent = uptime - one.asked.setdefault(person, uptime) > _SILENCE
            if record is None and silent and not asking and seat.state is SeatState.STARTING:
                one.unsure.add(person)

    async def release(self, one: LiveStart, now: float) -> None:
        """Stop what nobody has claimed in time, and rehearsals that have shown what they could."""
        start, waiting, uptime = one.start, one.some(SeatState.WAITING), self._around.uptime()
        if due_to_end(start, list(one.seats.values()), uptime - one.began) or (
            start.kind is StartKind.REHEARSAL and one.called_off
        ):
            late = "It was not ready within 15 minutes."
            for seat in waiting:
                one.put(changed(seat, SeatState.FAILED, late, ended_at=now))
            state = SeatState.SKIPPED if one.called_off else SeatState.FAILED
            reason = StopReason(code=StopCode.REHEARSED, words="The rehearsal is over.")
            self._stop(one, one.some(SeatState.READY), reason, SeatState.RELEASED, reason.words)
            self._stop(one, one.some(SeatState.STARTING), reason, state, late)
        elif one.due(now, uptime):
            for seat in waiting:
                late = f"It could not be started in time. {seat.message}".strip()
                one.put(changed(seat, SeatState.FAILED, late, ended_at=now))
            words = "Its meeting has begun, and nobody opened it."
            reason = StopReason(code=StopCode.UNCLAIMED, words=words)
            unclaimed = one.some(SeatState.STARTING, SeatState.READY)
            self._stop(one, unclaimed, reason, SeatState.RELEASED, words)

    def _stop(
        self,
        one: LiveStart,
        seats: Sequence[Seat],
        reason: StopReason,
        state: SeatState,
        words: str,
    ) -> None:
        """Have the Hub stop these, and bring them into ``state`` then. Those for whom there is no
        room now, and what fails, are tried again at the next look."""
        free = self._around.settings.at_once - len(self.stops)
        for seat in seats:
            busy = self.stops.has(one, seat.person) or self._asking.has(one, seat.person)
            if free > 0 and not busy:
                free -= 1
                over = changed(seat, state, words)
                self.stops.begin(one, seat.person, self._stop_one(one, over, reason))

    async def _stop_one(self, one: LiveStart, over: Seat, reason: StopReason) -> None:
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
            one.put(over.model_copy(update=times))
