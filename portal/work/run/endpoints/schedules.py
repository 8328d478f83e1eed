"""``api/v1/runs/schedules``: a user's schedules, for the user and for the user's sessions."""

from __future__ import annotations

import time
import uuid
from typing import Any

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.clock import Clock
from portal.models.session.run import Notify, Run, RunId
from portal.models.session.run_schedule import (
    LONGEST_CHAIN,
    Days,
    LastDay,
    RunSchedule,
    ScheduleTimes,
    Zone,
)
from portal.work.run.launches.schedule_times import next_time, time_words
from portal.work.run.parts import RunParts
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.schedules import RunScheduleTable

from .runs import RunAction

SCHEDULE_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_EVERY_DAY: Days = (0, 1, 2, 3, 4, 5, 6)


class NewSchedule(Frozen):
    """Schedule to make: the ``run`` that is repeated, with its whole chain; ``at``: the time of
    day, on these ``days`` (0: Monday), in this ``timezone`` (null: the site's); ``until``: the last
    day, "": none. ``notify``: the events of its runs that you get mail about; with any, also about
    times that were missed or refused."""

    run: RunId
    at: Clock
    days: Days = _EVERY_DAY
    timezone: Zone | None = None
    until: LastDay = ""
    notify: Notify = ()


class ScheduleChange(Frozen):
    """State of a schedule: ``paused`` or not."""

    paused: bool


class ScheduledRun(Frozen):
    """Run that a schedule repeats."""

    id: str
    name: str


class ScheduleItem(ScheduleTimes):
    """Schedule as its user sees it. Times are Unix seconds. ``name``: that of the ``runs``' last
    one; ``next_at``: null if it is paused or over; ``last_run``: id of the last one of the newest
    start, "" for none; ``message``: a sentence about a last time without a start."""

    id: str
    name: str
    runs: tuple[ScheduledRun, ...]
    notify: Notify
    created_at: float
    next_at: float | None
    last_at: float | None
    last_run: str
    message: str
    paused: bool


class ScheduleList(Frozen):
    """Schedules of a user, and how many a user may have at ``most``; 0: none are offered."""

    items: tuple[ScheduleItem, ...]
    most: int


class Schedules(RunAction):
    """Schedules of the user."""

    path = "runs/schedules"

    @Operation("List your schedules of runs.")
    async def on_get(self) -> ScheduleList:
        """Return them, oldest first."""
        schedules = await self.parts.store.table(RunScheduleTable).of_user(self.person.name)
        items = (_item(schedule) for schedule in schedules if self.reaches(schedule.runs[-1]))
        return ScheduleList(items=tuple(items), most=self.parts_for(RunParts).limits.schedules)

    @Operation(
        "Repeat one of your runs on a schedule.", body=NewSchedule, status=201, errors=(409,)
    )
    async def on_post(self) -> ScheduleItem:
        """Each time, a new run repeats the frozen source with its points. If the run started after
        another, the whole chain is repeated, in its order."""
        new: NewSchedule = self.body
        user, limits = self.person.name, self.parts_for(RunParts).limits
        async with self.audited(AuditAction.SCHEDULE_RUN, f"run {new.run}", user) as line:
            if not limits.schedules:
                raise NotAllowed("Schedules of runs are not offered on this site.")
            runs = await self._chain(await self.own(new.run))
            if any(run.folder.startswith("~") for run in runs):
                raise Conflict(
                    "This run has not started yet. Schedule it once its points are running."
                )
            if new.notify:
                await self.parts_for(RunParts).notices.check(user, new.notify)
            now = time.time()
            schedule = RunSchedule(
                user=user,
                id=str(uuid.uuid4()),
                name=runs[-1].name,
                runs=runs,
                at=new.at,
                days=new.days,
                timezone=new.timezone or limits.timezone,
                until=new.until,
                notify=new.notify,
                created_at=now,
            )
            schedule = schedule.model_copy(update={"next_at": _next(schedule, now)})
            await self.parts.store.table(RunScheduleTable).add_schedule(schedule, limits.schedules)
            line.detail = f"{schedule.at} {schedule.timezone}, {len(runs)} runs: {schedule.id}."
        return _item(schedule)

    async def _chain(self, run: Run) -> tuple[Run, ...]:
        """Return a run after those that it started after, the first one first."""
        runs = [run]
        while runs[0].after:
            if len(runs) == LONGEST_CHAIN:
                raise Conflict(f"A schedule repeats chains of at most {LONGEST_CHAIN} runs.")
            before = await self.parts.store.table(RunTable).get(run.user, runs[0].after)
            if before is None or not self.reaches(before):
                raise Conflict(
                    f"The run before '{runs[0].name}' is no longer kept, so the chain cannot be "
                    "repeated. Start a new chain and schedule it."
                )
            runs.insert(0, before)
        return tuple(runs)


class OneSchedule(RunAction):
    """Schedule of the user."""

    path = "runs/schedules/{schedule}"
    parameters = {"schedule": SCHEDULE_ID}

    @Operation("Pause or resume one of your schedules.", body=ScheduleChange, errors=(409,))
    async def on_put(self, schedule: str) -> ScheduleItem:
        """Leave out the times that come while it is paused."""
        change: ScheduleChange = self.body
        table, user = self.parts.store.table(RunScheduleTable), self.person.name
        pause, resume = AuditAction.PAUSE_SCHEDULE, AuditAction.RESUME_SCHEDULE
        action = pause if change.paused else resume
        async with self.audited(action, f"schedule {schedule}", user):
            own_schedule = await self._own(schedule)
            values: dict[str, Any] = {"paused": change.paused, "starting_at": None, "next_at": None}
            if not change.paused:
                values |= {
                    "next_at": _next(own_schedule, time.time()),
                    "refusals": 0,
                    "message": "",
                }
            if not await table.change(own_schedule, **values):
                raise Conflict("The schedule has just changed. Try again.")
        return _item(await table.get(user, schedule))

    @Operation("Delete one of your schedules.")
    async def on_delete(self, schedule: str) -> Confirmation:
        """Leave the runs that it has started as they are."""
        user = self.person.name
        async with self.audited(AuditAction.DELETE_SCHEDULE, f"schedule {schedule}", user):
            await self.parts.store.table(RunScheduleTable).remove(
                user, (await self._own(schedule)).id
            )
        return self.done("The schedule was deleted.")

    async def _own(self, id_: str) -> RunSchedule:
        """Return a schedule of the user. Raises NotFound, StoreUnavailable."""
        schedule = await self.parts.store.table(RunScheduleTable).get(self.person.name, id_)
        if not self.reaches(schedule.runs[-1]):
            raise NotFound("You have no such schedule.")
        return schedule


def _next(schedule: RunSchedule, now: float) -> float:
    """Return the next start. Raises InvalidRequest if there is none."""
    following = next_time(schedule, now)
    if following is None:
        raise InvalidRequest(
            f"The schedule would not start a run by {schedule.until}. Choose a later last day.",
            "until",
        )
    return following


def _item(schedule: RunSchedule) -> ScheduleItem:
    shared = ScheduleItem.model_fields.keys() & RunSchedule.model_fields.keys() - {"runs"}
    message = schedule.message
    if schedule.starting_at is not None and message:
        when = time_words(schedule, schedule.starting_at)
        message = f"The start at {when} is retried every few seconds. {message}"
    return ScheduleItem(
        **schedule.model_dump(include=shared - {"message"}),
        message=message,
        runs=tuple(ScheduledRun(id=run.id, name=run.name) for run in schedule.runs),
        last_run=schedule.last_runs[-1] if schedule.last_runs else "",
    )


ENDPOINTS = (Schedules, OneSchedule)
