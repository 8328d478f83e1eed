"""Last outputs of points that failed, as text. Written by the service only."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from portal.models.session.run_output import StoredOutput
from portal.store.engine.columns import COUNT, NAME, TIME, Json, filled, keyed, keys
from portal.store.engine.rows import ModelTable

from .runs import RunKey
from .sizes import Sizes

MOST = 200  # points of a run whose output is kept: further ones rarely say anything else

run_outputs = keyed(
    "run_outputs",
    *keys(NAME, "user", "run"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(COUNT, "attempt"),
    *filled(TIME, "at"),
    *filled(Json, "output"),
)

_SIZES = Sizes(run_outputs, "output", share=0.75)


class RunOutputTable(ModelTable[StoredOutput]):
    """The table of outputs. Every method raises StoreUnavailable."""

    table, model = run_outputs, StoredOutput

    async def save(self, key: RunKey, number: int, stored: StoredOutput) -> None:
        """Insert the last output of a point, or replace that of the same attempt or an earlier
        one. Nothing happens if MOST points of the run have one, or if the run or its user has
        stored too much."""
        columns = run_outputs.c
        own = [columns.user == key[0], columns.run == key[1]]
        row = {**stored.model_dump(), "user": key[0], "run": key[1], "number": number}
        upsert = self._database.insert(run_outputs)
        statement = upsert.on_conflict_do_update(
            index_elements=["user", "run", "number"],
            set_={name: upsert.excluded[name] for name in ("attempt", "at", "output")},
            where=upsert.excluded.attempt >= columns.attempt,
        )
        others = select(func.count()).where(*own, columns.number != number)

        def write(to: Connection) -> None:
            if to.execute(others).scalar_one() < MOST:
                _SIZES.write(to, self._database, [row], lambda rows: to.execute(statement, rows))

        await self._database.run(write, write=True)

    async def get(self, key: RunKey, number: int) -> StoredOutput | None:
        """Return the last output of a point; None without one."""
        columns = run_outputs.c
        query = select(columns.attempt, columns.at, columns.output).where(
            columns.user == key[0], columns.run == key[1], columns.number == number
        )
        return await self._first(query)
