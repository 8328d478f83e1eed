"""Watcher of the sessions' GPUs: warns the owners, and stops unused sessions. One per service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.errors import Conflict, NotFound, PortalError, StoreUnavailable
from portal.hubapi import HubApi
from portal.launch.kinds import kind_of
from portal.models.audit import AuditAction, AuditEntry, Outcome
from portal.models.cluster.cluster import Job
from portal.models.cluster.gpu import GpuReading
from portal.models.session.activity import SessionActivity
from portal.models.session.idle import IdleMode, IdleState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.models.words import duration
from portal.periodic import Periodic
from portal.spaces.registry import space_type_of
from portal.store import Store
from portal.store.sessions.snoozes import Snooze
from portal.telemetry import Telemetry

from .idle import IdleClock, IdleFindings, Rules, due, next_clock, snoozed, state
from .idle_settings import IdleSettings
from .meter import uptime
from .view import DatedView, View

SERVICE = "portal"  # the actor of its lines in the audit log
_AGAIN = 60.0  # seconds between two tries to stop a session
_ENDING = 300.0  # seconds that a session may take to end once the Hub has agreed
_AHEAD = 5.0  # seconds: a reading further in the future comes from before a clock was set
_NO_GPUS = "The session has no GPUs."


@dataclass(frozen=True)
class IdleContext:
    """Dependencies of the watcher."""

    # Returns the newest view, made every ``interval()`` seconds.
    view: Callable[[], DatedView | None]
    interval: Callable[[], float]
    telemetry: Telemetry
    store: Store
    hub: HubApi
    # The environments' own times in seconds, by name.
    idle_times: Callable[[], Awaitable[Mapping[str, float]]]
    note: Callable[[AuditEntry], Awaitable[object]]  # writes an entry to the audit log
    # Tells whether a job waits to take the place of the session with that id.
    moving: Callable[[str], bool] = lambda session_id: False


@dataclass
class _Watched:
    record: SessionRecord
    rules: Rules
    clock: IdleClock = field(default_factory=IdleClock)
    restored: bool = False  # the clock has its snoozes from the database
    ask_at: float = float("-inf")  # the Hub is asked to stop it at this time or later


class IdleGpus(IdleSettings):
    """Warnings and stops for sessions that hold GPUs and do not use them.

    ``uptime`` is a clock that is never set, ``wall`` the machine's (Unix seconds).
    """

    def __init__(
        self,
        context: IdleContext,
        *,
        uptime: Callable[[], float] = uptime,
        wall: Callable[[], float] = time.time,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._uptime, self._wall = uptime, wall
        self.context = context
        self._sessions: dict[str, _Watched] = {}
        self._activity: dict[str, tuple[float, SessionActivity]] = {}
        self._taken: tuple[float, float] | None = None  # Slurm's last answer; when it was seen
        self._times: Mapping[str, float] = {}
        self._complaint = ""

    # -- for other parts of the service ---------------------------------------------------------

    def record_activity(self, session_id: str, activity: SessionActivity | None) -> None:
        """Take a session's report of its last activity; None: it does not say."""
        if self.mode == IdleMode.OFF:
            return
        if activity is None:
            self._activity.pop(session_id, None)
        else:
            self._activity[session_id] = (self._uptime(), activity)

    def state_of(self, session_id: str) -> IdleState:
        """Return the idleness of that session."""
        session = self._sessions.get(session_id)
        if session is None:
            return IdleState(mode=IdleMode(self.mode))
        return state(session.clock, session.rules, self._uptime(), self._wall())

    async def snooze(self, session_id: str) -> IdleState:
        """Put off the stop of that session. Raises Conflict with a sentence why not."""
        session = self._sessions.get(session_id)
        if session is None:
            off = (
                "This site does not check for idle GPUs" if self.mode == IdleMode.OFF else _NO_GPUS
            )
            raise Conflict(f"{off.removesuffix('.')}: there is nothing to snooze.")
        now = self._uptime()
        session.clock = snoozed(session.clock, session.rules, now)
        until = self._wall() + session.rules.snooze
        try:
            await self.context.store.snoozes.set(session_id, Snooze(until, session.clock.snoozes))
        except StoreUnavailable as error:
            self.log.warning("A snooze lasts only until the next restart: %s", error)
        return self.state_of(session_id)

    # -- the loop ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look at the sessions until cancelled."""
        await Periodic(
            "The check for idle GPUs",
            self.check_sessions,
            lambda _: self.context.interval(),
            self.log,
        ).run()

    async def check_sessions(self) -> None:
        """Look at every session with GPUs, and stop those whose time has come."""
        view = self.context.view()
        if self.mode == IdleMode.OFF or view is None:
            return
        self._times = await self.context.idle_times()
        self._follow(view)
        await self._restore()
        readings = await asyncio.to_thread(self.context.telemetry.readings, view.snapshot)
        now, wall = self._uptime(), self._wall()
        if self._taken is None or self._taken[0] != view.taken_at:
            self._taken = (view.taken_at, now)
        over = []
        for session in self._sessions.values():
            seen = self._seen(
                session, view.snapshot.jobs[session.record.job_id], readings, now, wall
            )
            session.clock = next_clock(session.clock, seen, session.rules, now)
            over_due = due(session.clock, session.rules, now) and now >= session.ask_at
            if over_due and _newest(session.record, view):
                over.append(session)
        await asyncio.gather(*(self._stop(session, now) for session in over))

    def _follow(self, view: DatedView) -> None:
        """Watch the sessions that run with GPUs, and no others."""
        jobs, watched = view.snapshot.jobs, {}
        for job_id, record in view.sessions.items():
            job = jobs.get(job_id)
            if job is None or not job.state.running or not job.gpus:
                continue
            if job_id != record.job_id:
                continue  # a task of an array, which ends by itself
            if record.state is SessionState.ENDED:
                continue
            session = self._sessions.get(record.id)
            if session is None:
                session = _Watched(record, self._rules(record))
            session.record, session.rules = record, self._rules(record)
            watched[record.id] = session
        self._sessions = watched
        living = {record.id for record in view.sessions.values()}
        self._activity = {id_: latest for id_, latest in self._activity.items() if id_ in living}

    def _rules(self, record: SessionRecord) -> Rules:
        return Rules(
            mode=IdleMode(self.mode),
            limit=self._times.get(record.environment, self.idle_time),
            warn=self.warn_time,
            snooze=self.snooze_time,
            snoozes=self.snoozes,
            silence=self._silence,
            exempt=self._exempt(record),
        )

    @property
    def _silence(self) -> float:
        """Seconds without news after which the state is unknown: telemetry's ``report_gap``, or
        the time of three views, whichever is longer."""
        return max(self.context.telemetry.report_gap, 3 * self.context.interval())

    def _exempt(self, record: SessionRecord) -> str:
        if self.context.moving(record.id):
            # Its owner has requested other resources, often to give these back: a stop would
            # cancel that.
            return "The session's resources are being changed."
        if record.user in self.exempt_users:
            return f"Sessions of {record.user} are never stopped for idle GPUs here."
        if groups := sorted(self.exempt_groups & set(record.groups)):
            return f"Sessions of the group {groups[0]} are never stopped for idle GPUs here."
        if record.space and record.space in self.exempt_spaces:
            of_type = space_type_of(record.server, record.options)
            noun = of_type.noun if of_type else "space"
            return f"Sessions of the {noun} {record.space} are never stopped for idle GPUs here."
        return ""

    async def _restore(self) -> None:
        """Restore the snoozes from before a restart of the service."""
        new = [id_ for id_, session in self._sessions.items() if not session.restored]
        if not new:
            return
        try:
            stored = await self.context.store.snoozes.of_sessions(new)
        except PortalError as error:
            if error.message != self._complaint:
                self.log.warning("Idle GPUs are not checked yet: %s", error)
            self._complaint = error.message
            return
        self._complaint, now, wall = "", self._uptime(), self._wall()
        for id_ in new:
            session = self._sessions[id_]
            session.restored = True
            if id_ in stored:
                # Even if the wall clock was set meanwhile, it lasts one snooze at most.
                rest = min(max(0.0, stored[id_].until - wall), session.rules.snooze)
                session.clock = IdleClock(
                    snoozed_at=now, snoozed_until=now + rest, snoozes=stored[id_].times
                )

    def _seen(
        self,
        session: _Watched,
        job: Job,
        readings: Mapping[tuple[str, int], GpuReading],
        now: float,
        wall: float,
    ) -> IdleFindings:
        if not session.restored:
            return IdleFindings(unknown="The portal's database has not answered yet.")
        if self._taken is None or now - self._taken[1] > self._silence:
            return IdleFindings(unknown="Slurm does not answer.")
        used = self._used(job, readings, wall)
        if used is None:
            return IdleFindings(unknown="Some GPUs of the session have no reading.")
        at, activity = self._activity.get(session.record.id, (None, None))
        if at is None or activity is None or now - at > self._silence:
            return IdleFindings(
                used=used or None, unknown="The session does not report its activity."
            )
        if activity.age is None:
            return IdleFindings(
                used=used or None, unknown="The session cannot see all of its activity."
            )
        return IdleFindings(used=used, age=activity.age + (now - at))

    def _used(
        self, job: Job, readings: Mapping[tuple[str, int], GpuReading], wall: float
    ) -> bool | None:
        """Return whether a GPU of the job is used; None if that is unknown for one of them."""
        gpus = [(node, index) for node, held in job.gpu_indexes.items() for index in held]
        job_readings = [readings.get(gpu) for gpu in gpus]
        busy = [
            None
            if reading is None or reading.at > wall + _AHEAD
            else self.context.telemetry.busy(reading)
            for reading in job_readings
        ]
        if True in busy:
            return True
        return None if None in busy or len(busy) < job.gpus else False

    async def _stop(self, session: _Watched, now: float) -> None:
        record = session.record
        idle = (
            duration(now - session.clock.since) if session.clock.since is not None else "too long"
        )
        words = f"The {kind_of(record).words.noun}'s GPUs were idle for {idle}."
        outcome, detail = Outcome.DONE, words
        session.ask_at = now + _AGAIN
        try:
            reason = StopReason(code=StopCode.IDLE, words=words)
            await self.context.hub.stop_server(record.user, record.server, reason=reason)
            session.ask_at = now + _ENDING
        except NotFound:
            return  # it was stopped meanwhile
        except PortalError as error:
            outcome, detail = Outcome.FAILED, f"{words} {error.message}"
        except Exception:
            self.log.exception("Session %s could not be stopped", record.id)
            outcome, detail = Outcome.FAILED, f"{words} The service failed. See its log."
        entry = AuditEntry(
            at=self._wall(),
            actor=SERVICE,
            action=AuditAction.STOP_IDLE_SESSION,
            target=f"session {record.id}",
            owner=record.user,
            outcome=outcome,
            detail=detail,
        )
        await self.context.note(entry)


def _newest(record: SessionRecord, view: View) -> bool:
    """Return True if the Hub, asked to stop the server of this name, stops this session."""
    return not any(
        (other.user, other.server) == (record.user, record.server)
        and other.submitted_at > record.submitted_at
        for other in view.sessions.values()
    )
