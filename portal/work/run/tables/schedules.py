"""Schedules of runs. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Index, and_, delete, func, or_, select, update

from portal.errors import NotAllowed, NotFound
from portal.models.session.run_schedule import RunSchedule
from portal.store.engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from portal.store.engine.rows import ModelTable

run_schedules = keyed(
    "run_schedules",
    *keys(NAME, "user", "id"),
    *filled(NAME, "name", "at", "timezone", "until"),
    *filled(Json, "days", "runs", "notify", "last_runs"),
    *filled(TIME, "created_at"),
    *optional(TIME, "next_at", "starting_at", "last_at"),
    *filled(COUNT, "refusals", "paused"),  # paused: 1 is yes
    *filled(TEXT, "message", "untold"),
    Index(None, "next_at"),
)


class RunScheduleTable(ModelTable[RunSchedule]):
    """The table of schedules, by user and id. Every method raises StoreUnavailable."""

    table, model = run_schedules, RunSchedule

    async def add_schedule(self, schedule: RunSchedule, most: int) -> None:
        """Insert a new schedule. Raises NotAllowed if the user has ``most`` already."""

        def insert(to: Connection) -> None:
            own = run_schedules.c.user == schedule.user
            number = to.execute(select(func.count()).where(own)).scalar_one()
            if number >= most:
                raise NotAllowed(
                    f"You have {number} schedules; the limit is {most}. Delete one of them first."
                )
            to.execute(run_schedules.insert().values(_row(schedule)))

        await self._database.run(insert, write=True)

    async def of_user(self, user: str) -> list[RunSchedule]:
        """Return a user's schedules, oldest first."""
        query = select(run_schedules).where(run_schedules.c.user == user)
        return await self._models(query.order_by(run_schedules.c.created_at, run_schedules.c.id))

    async def get(self, user: str, id_: str) -> RunSchedule:
        """Return a schedule of a user. Raises NotFound."""
        schedule = await self._first(select(run_schedules).where(_own(user, id_)))
        if schedule is None:
            raise NotFound("You have no such schedule.")
        return schedule

    async def due(self, now: float) -> list[RunSchedule]:
        """Return the schedules whose time has come at ``now`` (Unix seconds), or whose start was
        not carried out to its end."""
        columns = run_schedules.c
        query = select(run_schedules).where(
            or_(columns.next_at <= now, columns.starting_at.is_not(None))
        )
        return await self._models(query.order_by(columns.next_at))

    async def untold(self) -> list[RunSchedule]:
        """Return the schedules with an unsent mail."""
        return await self._models(select(run_schedules).where(run_schedules.c.untold != ""))

    async def change(self, schedule: RunSchedule, **values: Any) -> bool:
        """Change a schedule if it still is as ``schedule`` says; return False if it is not: it was
        deleted, paused or served meanwhile."""
        columns = run_schedules.c
        same = and_(
            _own(schedule.user, schedule.id),
            columns.next_at.is_not_distinct_from(schedule.next_at),
            columns.starting_at.is_not_distinct_from(schedule.starting_at),
        )
        statement = update(run_schedules).where(same).values(_row(schedule, values))
        return await self._write(statement) == 1

    async def mark_notified(self, schedule: RunSchedule) -> None:
        """Save that the mail about ``schedule.untold`` was sent."""
        this = and_(_own(schedule.user, schedule.id), run_schedules.c.untold == schedule.untold)
        await self._write(update(run_schedules).where(this).values(untold=""))

    async def remove(self, user: str, id_: str) -> None:
        """Delete a schedule. Raises NotFound."""
        if not await self._write(delete(run_schedules).where(_own(user, id_))):
            raise NotFound("You have no such schedule.")


def _own(user: str, id_: str) -> Any:
    return and_(run_schedules.c.user == user, run_schedules.c.id == id_)


def _row(schedule: RunSchedule, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the columns of a schedule, or those of ``changes``, as the database takes them."""
    values = schedule.model_dump(mode="json") if changes is None else dict(changes)
    if "paused" in values:
        values["paused"] = int(values["paused"])
    return values
