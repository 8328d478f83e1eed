"""Conditions of runs in projects, as their points report them. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from portal.models.session.run_conditions import RunConditions
from portal.store.engine.columns import NAME, Json, filled, keyed, keys
from portal.store.engine.rows import StoreTable

from .runs import RunKey

run_conditions = keyed(
    "run_conditions",
    *keys(NAME, "user", "run"),
    *filled(Json, "conditions"),
)


class RunConditionTable(StoreTable):
    """The table of conditions, by user and run. Every method raises StoreUnavailable."""

    async def save(self, key: RunKey, conditions: RunConditions) -> None:
        """Insert the conditions of a run, or replace those of an earlier attempt."""
        insert = self._database.insert(run_conditions).values(
            user=key[0], run=key[1], conditions=conditions.model_dump(mode="json")
        )
        newer = {"conditions": insert.excluded.conditions}
        await self._write(insert.on_conflict_do_update(index_elements=["user", "run"], set_=newer))

    async def of_runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunConditions]:
        """Return the conditions of those of these runs that have reported them."""
        columns = run_conditions.c
        found: dict[RunKey, RunConditions] = {}
        for user in sorted({user for user, _ in keys}):
            runs = [run for name, run in keys if name == user]
            query = select(run_conditions).where(columns.user == user, columns.run.in_(runs))
            for row in await self._rows_of(query):
                found[row.user, row.run] = RunConditions.model_validate(row.conditions)
        return found
