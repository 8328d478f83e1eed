"""Pictures and tables that points have logged, compressed. Written by the service only."""

from __future__ import annotations

import zlib
from typing import Any

from sqlalchemy import LargeBinary, select

from portal.models.session.run_logged import Logged
from portal.store.engine.columns import COUNT, NAME, filled, keyed, keys
from portal.store.engine.rows import StoreTable

from .runs import RunKey
from .sizes import Sizes

run_logged = keyed(
    "run_logged",
    *keys(NAME, "user", "run"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(COUNT, "attempt"),
    *filled(LargeBinary, "logged"),
)

_SIZES = Sizes(run_logged, "logged", share=0.5)  # values and curves have room in any case


class RunLoggedTable(StoreTable):
    """The table of what points have logged. Every method raises StoreUnavailable."""

    async def save(self, key: RunKey, number: int, attempt: int, logged: Logged) -> None:
        """Insert what a point has logged, or replace what it had of the same attempt or an earlier
        one. Nothing happens if its run or its user has stored too much."""
        row = {
            "user": key[0],
            "run": key[1],
            "number": number,
            "attempt": attempt,
            "logged": zlib.compress(logged.model_dump_json().encode(), 3),
        }
        insert = self._database.insert(run_logged)
        statement = insert.on_conflict_do_update(
            index_elements=["user", "run", "number"],
            set_={name: insert.excluded[name] for name in ("attempt", "logged")},
            where=insert.excluded.attempt >= run_logged.c.attempt,
        )

        def write(to: Any) -> None:
            _SIZES.write(to, self._database, [row], lambda rows: to.execute(statement, rows))

        await self._database.run(write, write=True)

    async def get(self, user: str, run: str, number: int) -> Logged:
        """Return what a point has logged."""
        columns = run_logged.c
        rows = await self._rows_of(
            select(columns.logged).where(
                columns.user == user, columns.run == run, columns.number == number
            )
        )
        return Logged.model_validate_json(zlib.decompress(rows[0].logged)) if rows else Logged()
