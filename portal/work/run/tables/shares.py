"""Shares of runs: who may see a run and repeat it. Written by the service only."""

from __future__ import annotations

import time

from sqlalchemy import Index, and_, delete, select

from portal.models.session.run import Run
from portal.store.engine.columns import NAME, TIME, filled, keyed, keys
from portal.store.engine.listing import order_by
from portal.store.engine.rows import ModelTable

from .runs import runs

run_shares = keyed(
    "run_shares",
    *keys(NAME, "owner", "run", "user"),
    *filled(TIME, "at"),
    Index(None, "user"),
)
_OF_RUN = and_(run_shares.c.owner == runs.c.user, run_shares.c.run == runs.c.id)


class RunShareTable(ModelTable[Run]):
    """The table of shares, by owner, run and the user that it is shared with. Every method raises
    StoreUnavailable."""

    table, model = runs, Run

    async def share(self, owner: str, run: str, user: str) -> None:
        """Share a run with a user; nothing changes if it is."""
        values = {"owner": owner, "run": run, "user": user, "at": time.time()}
        insert = self._database.insert(run_shares).values(values)
        await self._write(insert.on_conflict_do_nothing())

    async def unshare(self, owner: str, run: str, user: str) -> bool:
        """End a share; return False if there was none."""
        columns = run_shares.c
        this = and_(columns.owner == owner, columns.run == run, columns.user == user)
        return bool(await self._write(delete(run_shares).where(this)))

    async def users(self, owner: str, run: str) -> list[str]:
        """Return the users with whom a run is shared, in alphabetical order."""
        columns = run_shares.c
        query = select(columns.user).where(columns.owner == owner, columns.run == run)
        return [row.user for row in await self._rows_of(query.order_by(columns.user))]

    async def get(self, user: str, owner: str, run: str) -> Run | None:
        """Return the run with this id that its ``owner`` shares with a user; None without one."""
        query = select(runs).join(run_shares, _OF_RUN)
        of_owner = and_(runs.c.user == owner, runs.c.id == run)
        return await self._first(query.where(run_shares.c.user == user, of_owner))

    async def with_user(
        self, user: str, *, text: str = "", offset: int = 0, limit: int = 50
    ) -> tuple[list[Run], int]:
        """Return one page of the runs that are shared with a user, newest first, and their
        number; with ``text``, those that have it in their name."""
        query = select(runs).join(run_shares, _OF_RUN).where(run_shares.c.user == user)
        if text:
            query = query.where(runs.c.name.icontains(text, autoescape=True))
        sorts = {"created_at": runs.c.created_at}
        return await self._page(query, order_by(runs, "-created_at", sorts), offset, limit)
