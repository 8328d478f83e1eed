"""Progress of a start's sessions, and the end of those that nobody claims."""

from __future__ import annotations

from collections.abc import Sequence

from portal.errors import NotFound, PortalError
from portal.models.course.start import Seat, SeatState, StartKind
from portal.models.session.stop_reason import StopCode, StopReason

from ..context import CourseContext
from .live_start import LiveStart, PendingRequests
from .rehearsal import due_to_end
from .seats import LIVE, LOST, changed, lost, newest, seen, session_of

_SILENCE = 15.0  # seconds after which a session of which nothing is known is looked up at the Hub
_QUIET = 10.0  # seconds between two looks at sessions that only wait for somebody to come


class StartProgress:
    """Progress of sessions, from their records. ``pending``: requests; ``stops``: stops under
    way."""

    def __init__(self, context: CourseContext, pending: PendingRequests) -> None:
        self._context, self._log, self._pending = context, context.log, pending
        self.stops = PendingRequests(context.log)

    async def follow(self, live: LiveStart, now: float) -> None:
        """Read the progress of the sessions."""
        starting, ready = live.some(SeatState.STARTING), live.some(SeatState.READY)
        uptime = self._context.uptime()
        wait = 0.0 if starting or live.due(now, uptime) else _QUIET
        if not (starting or ready) or uptime - live.looked_at < wait:
            return
        store, course = self._context.store, live.start.course
        records = newest(await store.sessions.of_space(course, live.since - 60), live.server)
        presences = {}
        if live.start.release_at is not None and ready:
            presences = {seat.person: seat for seat in await store.presence.of_course(course)}
        live.looked_at = uptime
        for seat in (*starting, *ready):
            person = seat.person
            known, before = live.sessions.get(person, ""), live.before.get(person, ())
            record = session_of(seat, records.get(person, ()), before, known)
            if record is not None:
                live.sessions[person] = record.id
            if lost(seat, record):
                # The Hub is asked about its server first, and for another once that is gone.
                live.put(changed(seat, SeatState.STARTING, LOST, ready_at=None))
                live.unsure.add(person)
                continue
            after = seen(seat, record, presences.get(person), now)
            if after is not seat:
                live.put(after)
            pending = self._pending.has(live, person)
            silent = uptime - live.asked.setdefault(person, uptime) > _SILENCE
            if record is None and silent and not pending and seat.state is SeatState.STARTING:
                live.unsure.add(person)

    async def release(self, live: LiveStart, now: float) -> None:
        """Stop what nobody has claimed in time, and rehearsals that are done."""
        start, waiting, uptime = live.start, live.some(SeatState.WAITING), self._context.uptime()
        if due_to_end(start, list(live.seats.values()), uptime - live.began) or (
            start.kind is StartKind.REHEARSAL and live.called_off
        ):
            late = "The session was not ready within 15 minutes."
            for seat in waiting:
                live.put(changed(seat, SeatState.FAILED, late, ended_at=now))
            state = SeatState.SKIPPED if live.called_off else SeatState.FAILED
            reason = StopReason(code=StopCode.REHEARSED, words="The rehearsal has ended.")
            self._stop(live, live.some(SeatState.READY), reason, SeatState.RELEASED, reason.words)
            self._stop(live, live.some(SeatState.STARTING), reason, state, late)
        elif live.due(now, uptime):
            for seat in waiting:
                late = f"The session could not be started in time. {seat.message}".strip()
                live.put(changed(seat, SeatState.FAILED, late, ended_at=now))
            words = "The session was not opened after its meeting began."
            reason = StopReason(code=StopCode.UNCLAIMED, words=words)
            unclaimed = live.some(SeatState.STARTING, SeatState.READY)
            self._stop(live, unclaimed, reason, SeatState.RELEASED, words)

    def _stop(
        self,
        live: LiveStart,
        seats: Sequence[Seat],
        reason: StopReason,
        state: SeatState,
        words: str,
    ) -> None:
        """Have the Hub stop these seats, and set them to ``state`` then. Seats above the limit,
        and failures, are retried at the next look."""
        free = self._context.settings.at_once - len(self.stops)
        for seat in seats:
            busy = self.stops.has(live, seat.person) or self._pending.has(live, seat.person)
            if free > 0 and not busy:
                free -= 1
                over = changed(seat, state, words)
                self.stops.begin(live, seat.person, self._stop_one(live, over, reason))

    async def _stop_one(self, live: LiveStart, over: Seat, reason: StopReason) -> None:
        try:
            await self._context.hub.stop_server(over.person, live.server, reason=reason)
        except NotFound:
            self._log.debug("The session of %s has ended", over.person)
        except PortalError as error:
            self._log.warning("The session of %s could not be stopped: %s", over.person, error)
            return
        if live.seats[over.person].state in LIVE:
            ready_at = live.seats[over.person].ready_at
            times = {"ready_at": ready_at, "ended_at": self._context.wall()}
            live.put(over.model_copy(update=times))
