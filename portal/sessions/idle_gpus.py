"""Watches the sessions' GPUs, warns their owners, and ends what nobody uses. One a service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from portal.errors import Conflict, NotFound, PortalError, StoreUnavailable
from portal.hubapi import HubApi
from portal.models.audit import AuditEntry, Outcome
from portal.models.cluster.cluster import ClusterSnapshot, Job
from portal.models.cluster.gpu import GpuReading
from portal.models.session.activity import SessionActivity
from portal.models.session.idle import IdleMode, IdleState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.models.words import duration
from portal.store import Store
from portal.store.sessions.snoozes import Snooze
from portal.telemetry import Telemetry

from .idle import IdleClock, Rules, Seen, due, look, snoozed, state
from .idle_settings import IdleSettings
from .meter import uptime

SERVICE = "portal"  # the actor of its lines in the audit log
_AGAIN = 60.0  # seconds between two tries to stop a session
_ENDING = 300.0  # seconds that a session may take to end when the Hub has said yes
_AHEAD = 5.0  # seconds: a reading that is further in the future comes from before a clock was set
_NO_GPUS = "It has no GPUs."


class View(Protocol):
    """What is needed of the dashboard's view."""

    @property
    def taken_at(self) -> float: ...
    @property
    def snapshot(self) -> ClusterSnapshot: ...
    @property
    def sessions(self) -> Mapping[str, SessionRecord]: ...


@dataclass(frozen=True)
class Around:
    """What the watch works with. ``view`` gives the newest view, made every ``interval()`` seconds;
    ``idle_times`` the environments' own times in seconds, by name; ``note`` writes a line to the
    audit log; ``moving`` tells of a session, by its id, whether a job waits to take its place."""

    view: Callable[[], View | None]
    interval: Callable[[], float]
    telemetry: Telemetry
    store: Store
    hub: HubApi
    idle_times: Callable[[], Awaitable[Mapping[str, float]]]
    note: Callable[[AuditEntry], Awaitable[None]]
    moving: Callable[[str], bool] = lambda session_id: False


@dataclass
class _Watched:
    record: SessionRecord
    rules: Rules
    clock: IdleClock = field(default_factory=IdleClock)
    restored: bool = False  # what the database knows of its snoozes is in the clock
    ask_at: float = float("-inf")  # the Hub is asked to stop it then or later


class IdleGpus(IdleSettings):
    """What the portal does about GPUs that are held and not used.

    ``uptime`` is a clock that nobody sets, ``wall`` the machine's (Unix seconds).
    """

    def __init__(
        self,
        around: Around,
        *,
        uptime: Callable[[], float] = uptime,
        wall: Callable[[], float] = time.time,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._uptime, self._wall = uptime, wall
        self.around = around
        self._sessions: dict[str, _Watched] = {}
        self._heard: dict[str, tuple[float, SessionActivity]] = {}
        self._taken: tuple[float, float] | None = None  # Slurm's last answer; when it was seen
        self._times: Mapping[str, float] = {}
        self._complaint = ""

    # -- what others ask and tell ---------------------------------------------------------------

    def heard(self, session_id: str, activity: SessionActivity | None) -> None:
        """A session has reported when something was done in it last; None: it does not say."""
        if self.mode == IdleMode.OFF:
            return
        if activity is None:
            self._heard.pop(session_id, None)
        else:
            self._heard[session_id] = (self._uptime(), activity)

    def state_of(self, session_id: str) -> IdleState:
        """How idle that session is."""
        one = self._sessions.get(session_id)
        if one is None:
            return IdleState(mode=IdleMode(self.mode))
        return state(one.clock, one.rules, self._uptime(), self._wall())

    async def snooze(self, session_id: str) -> IdleState:
        """Put off what is about to happen to that session. Raises Conflict with the sentence why
        not."""
        one = self._sessions.get(session_id)
        if one is None:
            off = "This site does not look for idle GPUs" if self.mode == IdleMode.OFF else _NO_GPUS
            raise Conflict(f"{off.removesuffix('.')}: there is nothing to snooze.")
        now = self._uptime()
        one.clock = snoozed(one.clock, one.rules, now)
        until = self._wall() + one.rules.snooze
        try:
            await self.around.store.snoozes.set(session_id, Snooze(until, one.clock.snoozes))
        except StoreUnavailable as error:
            self.log.warning("A snooze holds until the next restart only: %s", error)
        return self.state_of(session_id)

    # -- the loop ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self.around.interval())

    async def look(self) -> None:
        """Look at every session with GPUs, and stop those whose time has come."""
        view = self.around.view()
        if self.mode == IdleMode.OFF or view is None:
            return
        self._times = await self.around.idle_times()
        self._follow(view)
        await self._restore()
        readings = await asyncio.to_thread(self.around.telemetry.readings, view.snapshot)
        now, wall = self._uptime(), self._wall()
        if self._taken is None or self._taken[0] != view.taken_at:
            self._taken = (view.taken_at, now)
        over = []
        for one in self._sessions.values():
            seen = self._seen(one, view.snapshot.jobs[one.record.job_id], readings, now, wall)
            one.clock = look(one.clock, seen, one.rules, now)
            over_due = due(one.clock, one.rules, now) and now >= one.ask_at
            if over_due and _newest(one.record, view):
                over.append(one)
        await asyncio.gather(*(self._stop(one, now) for one in over))

    def _follow(self, view: View) -> None:
        """Watch the sessions that run with GPUs, and no others."""
        jobs, watched = view.snapshot.jobs, {}
        for job_id, record in view.sessions.items():
            job = jobs.get(job_id)
            if job is None or not job.state.running or not job.gpus:
                continue
            if record.state is SessionState.ENDED:
                continue
            one = self._sessions.get(record.id)
            if one is None:
                one = _Watched(record, self._rules(record))
            one.record, one.rules = record, self._rules(record)
            watched[record.id] = one
        self._sessions = watched
        living = {record.id for record in view.sessions.values()}
        self._heard = {id_: found for id_, found in self._heard.items() if id_ in living}

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
        """Seconds without news after which nothing is known: what telemetry takes for a pause."""
        return max(self.around.telemetry.report_gap, 3 * self.around.interval())

    def _exempt(self, record: SessionRecord) -> str:
        if self.around.moving(record.id):
            # Its owner has asked for other resources, often to give these back: to stop it would
            # call that off.
            return "Its resources are being changed."
        if record.user in self.exempt_users:
            return f"Sessions of {record.user} are never stopped for idle GPUs here."
        if groups := sorted(self.exempt_groups & set(record.groups)):
            return f"Sessions of the group {groups[0]} are never stopped for idle GPUs here."
        if record.course and record.course in self.exempt_courses:
            return f"Sessions of the course {record.course} are never stopped for idle GPUs here."
        return ""

    async def _restore(self) -> None:
        """After a restart of the service: what was snoozed before it."""
        new = [id_ for id_, one in self._sessions.items() if not one.restored]
        if not new:
            return
        try:
            found = await self.around.store.snoozes.of_sessions(new)
        except PortalError as error:
            if error.message != self._complaint:
                self.log.warning("Idle GPUs are not watched yet: %s", error)
            self._complaint = error.message
            return
        self._complaint, now, wall = "", self._uptime(), self._wall()
        for id_ in new:
            one = self._sessions[id_]
            one.restored = True
            if id_ in found:
                # A wall clock that was set meanwhile makes it neither longer nor endless.
                rest = min(max(0.0, found[id_].until - wall), one.rules.snooze)
                one.clock = IdleClock(
                    snoozed_at=now, snoozed_until=now + rest, snoozes=found[id_].times
                )

    def _seen(
        self,
        one: _Watched,
        job: Job,
        readings: Mapping[tuple[str, int], GpuReading],
        now: float,
        wall: float,
    ) -> Seen:
        if not one.restored:
            return Seen(unknown="The portal's database has not answered yet.")
        if self._taken is None or now - self._taken[1] > self._silence:
            return Seen(unknown="Slurm does not answer.")
        used = self._used(job, readings, wall)
        if used is None:
            return Seen(unknown="There is no reading of each of its GPUs.")
        at, activity = self._heard.get(one.record.id, (None, None))
        if at is None or activity is None or now - at > self._silence:
            return Seen(used=used or None, unknown="The session does not say what is done in it.")
        if activity.age is None:
            return Seen(used=used or None, unknown="The session cannot see all that is done in it.")
        return Seen(used=used, age=activity.age + (now - at))

    def _used(
        self, job: Job, readings: Mapping[tuple[str, int], GpuReading], wall: float
    ) -> bool | None:
        """Whether a GPU of the job is used; None where that is not known of one of them."""
        gpus = [(node, index) for node, held in job.gpu_indexes.items() for index in held]
        found = [readings.get(gpu) for gpu in gpus]
        busy = [
            None if one is None or one.at > wall + _AHEAD else self.around.telemetry.busy(one)
            for one in found
        ]
        if True in busy:
            return True
        return None if None in busy or len(busy) < job.gpus else False

    async def _stop(self, one: _Watched, now: float) -> None:
        record = one.record
        idle = duration(now - one.clock.since) if one.clock.since is not None else "too long"
        words = f"Its GPUs were idle for {idle}."
        outcome, detail = Outcome.DONE, words
        one.ask_at = now + _AGAIN
        try:
            reason = StopReason(code=StopCode.IDLE, words=words)
            await self.around.hub.stop_server(record.user, record.server, reason=reason)
            one.ask_at = now + _ENDING
        except NotFound:
            return  # it was stopped meanwhile
        except PortalError as error:
            outcome, detail = Outcome.FAILED, f"{words} {error.message}"
        except Exception:
            self.log.exception("Session %s could not be stopped", record.id)
            outcome, detail = Outcome.FAILED, f"{words} The service failed; its log tells what."
        entry = AuditEntry(
            at=self._wall(),
            actor=SERVICE,
            action="stop-idle-session",
            target=f"session {record.id}",
            owner=record.user,
            outcome=outcome,
            detail=detail,
        )
        await self.around.note(entry)


def _newest(record: SessionRecord, view: View) -> bool:
    """Whether the Hub, asked to stop the server of this name, stops this session."""
    return not any(
        (one.user, one.server) == (record.user, record.server)
        and one.submitted_at > record.submitted_at
        for one in view.sessions.values()
    )
