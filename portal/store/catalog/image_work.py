"""Common base of the tables of builds and of tests: work that a job of Slurm does."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Row, Select, Table, select, update

from portal.errors import NotFound
from portal.models import Frozen
from portal.models.catalog.image_job import LIVE, WorkState

from ..engine.database import Database
from ..engine.listing import instant, one_page

T = TypeVar("T", bound=Frozen)


class WorkTable(Generic[T]):
    """Base class of both tables. ``table`` has the columns id, state, job_id, nonce, log, step,
    message, asked_at; ``model`` is the type of its rows, ``noun`` the word for a row. Every method
    raises StoreUnavailable."""

    table: ClassVar[Table]
    model: type[T]
    noun: ClassVar[str]

    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(self, id: int, **values: Any) -> T:
        """Update columns of a row. Raises NotFound."""
        table = self.table
        statement = update(table).where(table.c.id == id).values(values).returning(table)
        row = await self._database.run(lambda to: to.execute(statement).first(), write=True)
        return self._found(row, id)

    async def get(self, id: int) -> T:
        """Return a row. Raises NotFound."""
        query = select(self.table).where(self.table.c.id == id)
        return self._found(await self._database.run(lambda at: at.execute(query).first()), id)

    async def live(self) -> list[T]:
        """Return the rows that are not over, oldest first."""
        table = self.table
        query = select(table).where(table.c.state.in_(LIVE)).order_by(table.c.id)
        return await self._database.run(lambda at: [self._made(row) for row in at.execute(query)])

    async def all(self, offset: int = 0, limit: int = 50) -> tuple[list[T], int]:
        """Return one page, newest first, and the total number of rows."""
        return await self._page(select(self.table), offset, limit)

    async def _add(self, nonce: str, log: str, at: float, **values: Any) -> T:
        """Insert a new row, WAITING; return it with its id."""
        values |= {
            "state": WorkState.WAITING,
            "job_id": "",
            "nonce": nonce,
            "log": log,
            "step": "",
            "message": "",
            "asked_at": instant(at, "at"),
        }
        statement = self.table.insert().values(values).returning(self.table)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return self._made(row)

    async def _page(self, query: Select[Any], offset: int, limit: int) -> tuple[list[T], int]:
        order = [self.table.c.id.desc()]
        return await self._database.run(
            lambda at: one_page(at, query, order, offset, limit, self._made)
        )

    def _found(self, row: Row[Any] | None, id: int) -> T:
        if row is None:
            raise NotFound(f"There is no {self.noun} {id}.")
        return self._made(row)

    def _made(self, row: Row[Any]) -> T:
        return self.model.model_validate(row._asdict())
