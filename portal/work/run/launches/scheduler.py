"""Starts of scheduled runs, each of which repeats the original with its frozen source.

The start of a time is noted before it is carried out, and the ids of its runs follow from the
schedule and the time: whatever kills the service meanwhile, no time is served twice.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from portal.errors import Conflict, NotAllowed, PortalError, TooManyRequests, Unavailable
from portal.models.audit import AuditAction, AuditEntry, Outcome
from portal.models.session.run import Notify, Run, RunEvent
from portal.models.session.run_schedule import RunSchedule
from portal.periodic import Periodic
from portal.store import Store
from portal.work.run.kind import Run as RunKind
from portal.work.run.settings import Runs
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.schedules import RunScheduleTable

from .repeats import LONGEST_NAME, free_name, repeat
from .schedule_times import newest_time, next_time, time_words
from .starts import RunStarts

_EVERY = 15.0  # seconds
_PAUSED_AFTER = 5  # refusals in a row
_ACTOR = "portal"  # of the audit log's entries


class ServerStates(Protocol):
    """Part of the Hub's API that this needs."""

    async def server_state(self, user: str, server: str) -> str:
        """Return the state of a server; "" for one that does not run."""

    async def may_log_in(self, user: str) -> bool:
        """Return False if this user can no longer log in. Raises HubUnavailable."""


class RunScheduler:
    """Task of the service that starts the runs of schedules. ``digest`` returns that of the image
    that a run would have now, "" for none."""

    def __init__(
        self,
        store: Store,
        starts: RunStarts,
        hub: ServerStates,
        limits: Runs,
        digest: Callable[[Run], Awaitable[str]],
        note: Callable[[AuditEntry], Awaitable[object]],
        log: Any,
    ) -> None:
        self._store, self._starts, self._hub = store, starts, hub
        self._limits, self._digest, self._note, self._log = limits, digest, note, log

    async def run(self) -> None:
        """Start the runs of schedules until cancelled."""
        # Quiet: the next look finds what this one did not.
        await Periodic(
            "The run scheduler",
            lambda: self.start_due(time.time()),
            _EVERY,
            self._log,
            level=logging.DEBUG,
        ).run()

    async def start_due(self, now: float) -> None:
        """Start what is due at ``now`` (Unix seconds). Raises StoreUnavailable."""
        if not self._limits.schedules:
            return
        for schedule in await self._store.table(RunScheduleTable).due(now):
            try:
                await self._serve(schedule, now)
            except PortalError:
                raise
            except Exception:  # a user's schedule must not stop those of others
                self._log.exception("Schedule %s of %s failed", schedule.id, schedule.user)

    async def _serve(self, schedule: RunSchedule, now: float) -> None:
        planned = schedule.starting_at
        if planned is None:
            assert schedule.next_at is not None
            planned = newest_time(schedule, schedule.next_at, now)
            intention = {
                "starting_at": planned,
                "next_at": next_time(schedule, planned),
                "message": "",  # that of the time before is none of this one's
            }
            if not await self._store.table(RunScheduleTable).change(schedule, **intention):
                return
            schedule = schedule.model_copy(update=intention)
        when = time_words(schedule, planned)
        if now - planned > self._limits.schedule_late:
            reason = schedule.message or "The portal was not running."
            words = f"The start at {when} was missed. {reason}"
            await self._finish(schedule, message=words, untold=words)
            return
        if (running := await self._running(schedule)) is not None:
            words = f"Not started at {when}, because '{running.name}' was still waiting or running."
            await self._finish(schedule, message=words)
            return
        started: list[str] = []
        try:
            await self._start(schedule, planned, now, started)
        except (Unavailable, TooManyRequests) as error:
            if schedule.message != error.message:
                await self._store.table(RunScheduleTable).change(schedule, message=error.message)
        except PortalError as error:
            await self._refused(schedule, when, error, started, now)
        else:
            await self._finish(schedule, message="", refusals=0, last_runs=started)
            detail = f"Runs {', '.join(started)} for the time {when}."
            await self._audit(schedule, now, Outcome.DONE, detail)

    async def _running(self, schedule: RunSchedule) -> Run | None:
        """Return a run of the last time that has not ended; None if there is none."""
        for id_ in schedule.last_runs:
            run = await self._store.table(RunTable).get(schedule.user, id_)
            if run is not None and run.ended_at is None:
                return run
        return None

    async def _start(
        self, schedule: RunSchedule, planned: float, now: float, started: list[str]
    ) -> None:
        """Start the runs of a time, in their order; append their ids to ``started``. Those that an
        earlier try has started are left alone. Raises PortalError."""
        if not await self._hub.may_log_in(schedule.user):
            raise NotAllowed(f"'{schedule.user}' can no longer log in to this portal.")
        for position, original in enumerate(schedule.runs):
            id_ = start_id(schedule, planned, position)
            if not await self._launched(schedule.user, id_):
                taken = await self._store.table(RunTable).names(schedule.user)
                name = start_name(schedule, original, planned, taken)
                changes: dict[str, Any] = {
                    "id": id_,
                    "server": RunKind.server_name(id_),
                    "after": started[-1] if started else "",
                    "created_at": now,
                }
                if not original.version:  # nothing but the name is known: it is as it is now
                    changes["digest"] = await self._digest(original)
                run = repeat(schedule.user, original, name).model_copy(update=changes)
                await self._begin(run, self._notices(schedule, position))
            started.append(id_)

    async def _launched(self, user: str, id_: str) -> bool:
        """Return True if an earlier try has launched this run. A row without a launch, which a kill
        has left, is removed."""
        run = await self._store.table(RunTable).get(user, id_)
        if run is None:
            return False
        if run.job_id or run.ended_at is not None:
            return True
        if await self._hub.server_state(user, run.server):
            return True
        records, _ = await self._store.sessions.find(user=user, server=run.server, limit=1)
        if not records:
            await self._store.table(RunTable).remove(user, id_)
        return bool(records)

    async def _begin(self, run: Run, notify: Notify) -> None:
        try:
            await self._starts.begin(run, notify)
        except Conflict:
            # The Hub may have launched it at an earlier try, whose answer was lost.
            if not await self._hub.server_state(run.user, run.server):
                raise
            if await self._store.table(RunTable).get(run.user, run.id) is None:
                await self._store.table(RunTable).add_run(run)
                await self._store.table(RunNoticeTable).ask(run.user, run.id, notify)

    def _notices(self, schedule: RunSchedule, position: int) -> Notify:
        """Return the events of a run of the chain that the user gets mail about: failures of each,
        the end of the last one."""
        last = position == len(schedule.runs) - 1
        return tuple(event for event in schedule.notify if last or event is RunEvent.FAILURE)

    async def _refused(
        self, schedule: RunSchedule, when: str, error: PortalError, started: list[str], now: float
    ) -> None:
        refusals = schedule.refusals + 1
        refused = schedule.runs[len(started)].name
        words = f"'{refused}' was not started at {when}. {error.message}"
        values: dict[str, Any] = {"refusals": refusals}
        if started:
            values["last_runs"] = started
        if refusals >= _PAUSED_AFTER:
            words += (
                f" The schedule was refused {refusals} times in a row and is now paused. Resume it "
                "when the cause is fixed."
            )
            values |= {"paused": True, "next_at": None}
        await self._finish(schedule, message=words, untold=words, **values)
        await self._audit(schedule, now, Outcome.REFUSED, error.message)

    async def _finish(self, schedule: RunSchedule, *, untold: str = "", **values: Any) -> None:
        """Note that the time of a start has been dealt with. ``untold``: a sentence for a mail."""
        if untold and schedule.notify:
            values["untold"] = untold
        values |= {"starting_at": None, "last_at": schedule.starting_at}
        await self._store.table(RunScheduleTable).change(schedule, **values)

    async def _audit(
        self, schedule: RunSchedule, now: float, outcome: Outcome, detail: str
    ) -> None:
        await self._note(
            AuditEntry(
                at=now,
                actor=_ACTOR,
                action=AuditAction.START_RUN,
                target=f"schedule {schedule.id}",
                owner=schedule.user,
                outcome=outcome,
                detail=detail[:1000],
            )
        )


def start_id(schedule: RunSchedule, planned: float, position: int) -> str:
    """Return the id of a run of a schedule's time: always the same one. ``position``: of the run in
    the chain, from 0."""
    return str(uuid.uuid5(uuid.UUID(schedule.id), f"{planned:.0f} {position}"))


def start_name(schedule: RunSchedule, original: Run, planned: float, taken: set[str]) -> str:
    """Return the name of a run of a schedule's time: "train-2026-11-23", with the time of day if
    that is taken."""
    local = datetime.fromtimestamp(planned, ZoneInfo(schedule.timezone))
    for ending in (f"-{local:%Y-%m-%d}", f"-{local:%Y-%m-%d-%H%M}"):
        name = f"{original.name[: LONGEST_NAME - len(ending)]}{ending}"
        if name not in taken:
            return name
    return free_name(original.model_copy(update={"name": name, "origin": None}), taken)
