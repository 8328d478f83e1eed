"""Common base of the tables of builds and of tests: work that a job of Slurm does."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Column, select

from portal.models import Frozen
from portal.models.catalog.image_job import LIVE, WorkState

from ..engine.columns import NAME, TEXT, TIME, Json, filled, optional
from ..engine.listing import instant
from ..engine.rows import NumberedTable

T = TypeVar("T", bound=Frozen)


def work_columns() -> list[Column[Any]]:
    """Return the columns of the work itself, which both tables have."""
    return [
        *filled(NAME, "state", "job_id", "nonce", "log", "step"),
        *filled(TEXT, "message"),
        *filled(TIME, "asked_at"),
        *optional(TIME, "started_at", "ended_at"),
        *optional(Json, "result"),
    ]


class WorkTable(NumberedTable[T]):
    """Base class of both tables; ``table`` has the ``work_columns``. Every method raises
    StoreUnavailable."""

    async def live(self) -> list[T]:
        """Return the rows that are not over, oldest first."""
        table = self.table
        return await self._models(select(table).where(table.c.state.in_(LIVE)).order_by(table.c.id))

    async def all(self, offset: int = 0, limit: int = 50) -> tuple[list[T], int]:
        """Return one page, newest first, and the total number of rows."""
        return await self._newest(select(self.table), offset, limit)

    async def _add(self, nonce: str, log: str, at: float, **values: Any) -> T:
        """Insert a new row, WAITING; return it with its id."""
        work = {"state": WorkState.WAITING, "nonce": nonce, "log": log}
        empty = dict.fromkeys(("job_id", "step", "message"), "")
        return await self._insert(values | work | empty | {"asked_at": instant(at, "at")})
