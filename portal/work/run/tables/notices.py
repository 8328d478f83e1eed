"""Mail that users want about their runs, and when it was sent. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Index, and_, bindparam, delete, or_, select, update

from portal.models.session.run import Notify, Run, RunEvent
from portal.store.engine.columns import NAME, TEXT, TIME, filled, keyed, keys, optional
from portal.store.engine.listing import instant, moment
from portal.store.engine.rows import StoreTable

from .runs import runs

run_notices = keyed(
    "run_notices",
    *keys(NAME, "user", "run", "event"),
    *optional(TIME, "told_at"),  # NULL: not yet
    *filled(TEXT, "outcome"),  # "" if it was sent, else the sentence why not
    Index(None, "told_at"),
)
_OWN = and_(run_notices.c.user == bindparam("of_user"), run_notices.c.run == bindparam("of_run"))
_ITS_RUN = and_(runs.c.user == run_notices.c.user, runs.c.id == run_notices.c.run)


class OpenNotice(NamedTuple):
    """Notice that is still to be sent, and its run."""

    run: Run
    event: RunEvent


class RunNoticeTable(StoreTable):
    """The table of notices about runs. Every method raises StoreUnavailable."""

    async def ask(self, user: str, run: str, events: Collection[RunEvent]) -> None:
        """Save that the user wants mail about these events of a run; it is sent once from now."""
        rows = [
            {"user": user, "run": run, "event": str(event), "told_at": None, "outcome": ""}
            for event in dict.fromkeys(events)
        ]
        if rows:
            await self._write(self._database.upsert(run_notices), rows)

    async def repeat(self, user: str, run: str) -> None:
        """Have all mail about a run sent once more: it runs again."""
        statement = update(run_notices).where(_OWN).values(told_at=None)
        await self._write(statement, {"of_user": user, "of_run": run})

    async def remove(self, user: str, run: str) -> None:
        """Forget what the user wanted: the run was refused."""
        await self._write(delete(run_notices).where(_OWN), {"of_user": user, "of_run": run})

    async def of_run(self, user: str, run: str) -> Notify:
        """Return the events of a run that its user gets or got mail about."""
        query = select(run_notices.c.event).where(
            run_notices.c.user == user, run_notices.c.run == run
        )
        return tuple(sorted(RunEvent(row.event) for row in await self._rows_of(query)))

    async def open(self) -> list[OpenNotice]:
        """Return the notices that were not sent yet, of runs that are kept."""
        query = (
            select(runs, run_notices.c.event.label("of_event"))
            .join(run_notices, _ITS_RUN)
            .where(run_notices.c.told_at.is_(None))
            .order_by(runs.c.created_at)
        )
        notices = []
        for row in await self._rows_of(query):
            values = row._asdict()
            event = RunEvent(values.pop("of_event"))
            notices.append(OpenNotice(Run.model_validate(values), event))
        return notices

    async def save_outcome(self, notice: OpenNotice, at: float, outcome: str = "") -> None:
        """Save that a notice was sent at ``at`` (Unix seconds), or in ``outcome`` why it is not
        sent."""
        own = and_(_OWN, run_notices.c.event == bindparam("of_event"))
        statement = (
            update(run_notices).where(own).values(told_at=instant(at, "at"), outcome=outcome)
        )
        key = {"of_user": notice.run.user, "of_run": notice.run.id, "of_event": str(notice.event)}
        await self._write(statement, key)

    async def prune(self, before: float) -> None:
        """Delete the notices that were sent before ``before`` (Unix seconds), and those of runs
        that are not kept any more."""
        orphan = ~select(runs.c.id).where(_ITS_RUN).exists()
        old = run_notices.c.told_at < moment(before, "before")
        await self._write(delete(run_notices).where(or_(orphan, old)))
