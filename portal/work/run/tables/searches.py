"""Searches of runs, and the parameters that were chosen for their points. Written by the service
only."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select

from portal.errors import Conflict
from portal.models.session.search import Search
from portal.store.engine.columns import COUNT, NAME, TIME, Json, filled, keyed, keys
from portal.store.engine.rows import StoreTable

from .runs import RunKey, runs

run_searches = keyed(
    "run_searches",
    *keys(NAME, "user", "run"),
    *filled(Json, "search"),
    *filled(TIME, "created_at"),
)
run_trials = keyed(
    "run_trials",
    *keys(NAME, "user", "run"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(Json, "chosen"),
)
_NEW = 86_400.0  # seconds in which a search may have no run yet


class RunSearchTable(StoreTable):
    """The tables of searches and their trials. Every method raises StoreUnavailable."""

    async def add_search(self, key: RunKey, search: Search) -> None:
        """Insert the search of a new run. Raises Conflict if there is one of this id."""
        row = {"user": key[0], "run": key[1], "search": search.model_dump(mode="json"),
               "created_at": time.time()}  # fmt: skip
        insert = self._database.insert(run_searches).values(row).on_conflict_do_nothing()
        statement = insert.returning(run_searches.c.run)
        new = await self._database.run(lambda to: to.execute(statement).first(), write=True)
        if new is None:
            raise Conflict(
                f"You already have a run with the id '{key[1]}'. Start this one with another id."
            )

    async def copy(self, of: RunKey, key: RunKey) -> None:
        """Give a repetition the search of its original, with what was chosen; nothing without."""
        search, trials = await self.get(of), await self.trials(of)
        if search is None:
            return
        own: dict[str, Any] = {"user": key[0], "run": key[1]}
        row = {**own, "search": search.model_dump(mode="json"), "created_at": time.time()}
        rows = [{**own, "number": number, "chosen": chosen} for number, chosen in trials.items()]

        def write(to: Connection) -> None:
            to.execute(self._database.insert(run_searches).on_conflict_do_nothing(), [row])
            if rows:
                to.execute(self._database.insert(run_trials).on_conflict_do_nothing(), rows)

        await self._database.run(write, write=True)

    async def remove(self, key: RunKey) -> None:
        """Delete the search of a run that was refused or is deleted, with its trials."""

        def remove(to: Connection) -> None:
            for table in (run_trials, run_searches):
                to.execute(delete(table).where(*_of(table.c, key)))

        await self._database.run(remove, write=True)

    async def get(self, key: RunKey) -> Search | None:
        """Return the search of a run; None without one."""
        rows = await self._rows_of(select(run_searches.c.search).where(*_of(run_searches.c, key)))
        return Search.model_validate(rows[0].search) if rows else None

    async def of_runs(self, user: str, ids: Collection[str]) -> dict[str, Search]:
        """Return the searches of a user's runs, by run; those without one are left out."""
        columns = run_searches.c
        query = select(columns.run, columns.search)
        own = query.where(columns.user == user, columns.run.in_(list(ids)))
        return {row.run: Search.model_validate(row.search) for row in await self._rows_of(own)}

    async def trials(self, key: RunKey) -> dict[int, dict[str, float]]:
        """Return what was chosen (`Search.values`) by the points' numbers, in their order."""
        columns = run_trials.c
        query = select(columns.number, columns.chosen).where(*_of(columns, key))
        rows = await self._rows_of(query.order_by(columns.number))
        return {row.number: row.chosen for row in rows}

    async def trial(self, key: RunKey, number: int) -> dict[str, float] | None:
        """Return what was chosen for a point; None if nothing was yet."""
        columns = run_trials.c
        query = select(columns.chosen).where(*_of(columns, key), columns.number == number)
        rows = await self._rows_of(query)
        return rows[0].chosen if rows else None

    async def choose(
        self, key: RunKey, number: int, chosen: Mapping[str, float]
    ) -> dict[str, float]:
        """Store what is chosen for a point; return that, or what was chosen before."""
        row = {"user": key[0], "run": key[1], "number": number, "chosen": dict(chosen)}
        await self._write(self._database.insert(run_trials).values(row).on_conflict_do_nothing())
        return await self.trial(key, number) or dict(chosen)

    async def prune(self) -> None:
        """Delete what belongs to runs that are no longer there."""
        before = time.time() - _NEW

        def remove(to: Connection) -> None:
            for table in (run_trials, run_searches):
                own = select(runs.c.id).where(runs.c.user == table.c.user, runs.c.id == table.c.run)
                old = [run_searches.c.created_at < before] if table is run_searches else []
                to.execute(delete(table).where(~own.exists(), *old))

        await self._database.run(remove, write=True)


def _of(columns: Any, key: RunKey) -> list[ColumnElement[bool]]:
    """Return the condition of a run's rows. ``columns``: of one of the tables."""
    return [columns.user == key[0], columns.run == key[1]]
