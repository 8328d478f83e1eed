"""Common bases of the store's tables: they run the statements and make models of the rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from sqlalchemy import Column, Executable, Row, Select, Table, select, update

from portal.errors import NotFound
from portal.models import Frozen

from .database import Database
from .listing import one_page

TABLES: list[type[StoreTable]] = []  # of features (portal/features.py)
Queries = TypeVar("Queries", bound="StoreTable")
T = TypeVar("T", bound=Frozen)


class StoreTable:
    """Base class of every table. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _rows_of(self, query: Executable) -> list[Any]:
        """Return all rows of a query."""
        return await self._database.run(lambda at: list(at.execute(query)))

    async def _rows_with(self, column: Column[Any], values: Collection[Any]) -> list[Any]:
        """Return the rows of a column's table that have one of ``values`` in it."""
        query = select(column.table).where(column.in_(list(values)))
        return await self._rows_of(query) if values else []

    async def _write(self, statement: Executable, values: Any = None) -> int:
        """Execute a statement with ``values`` (of a row, or of each row) for its parameters;
        return the number of rows that it changed."""
        return await self._database.run(
            lambda to: to.execute(statement, values).rowcount, write=True
        )


class FeatureTables:
    """Queries on the tables of all features, called with the class of one: ``table(RunTable)``."""

    def __init__(self, database: Database) -> None:
        self._tables = {table: table(database) for table in TABLES}

    def __call__(self, table: type[Queries]) -> Queries:
        return cast(Queries, self._tables[table])

    def each(self, base: type[Queries]) -> Iterator[Queries]:
        """Yield the tables of this base."""
        return (table for table in self._tables.values() if isinstance(table, base))


class ModelTable(StoreTable, Generic[T]):
    """Base class of tables with a model: ``table`` holds the rows, ``model`` is their type."""

    table: ClassVar[Table]
    model: type[T]

    async def _insert(self, values: Mapping[str, Any]) -> T:
        """Insert a row; return it with what the database has set."""
        statement = self.table.insert().values(values).returning(self.table)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return self._made(row)

    async def _first(self, query: Executable, *, write: bool = False) -> T | None:
        """Return the first row of a query or, with ``write``, of a change; None without one."""
        row = await self._database.run(lambda at: at.execute(query).first(), write=write)
        return None if row is None else self._made(row)

    async def _models(self, query: Executable) -> list[T]:
        """Return all rows of a query."""
        return await self._database.run(lambda at: [self._made(row) for row in at.execute(query)])

    async def _page(
        self, query: Select[Any], order: list[Any], offset: int, limit: int
    ) -> tuple[list[T], int]:
        """Return one page of a query, and the total number of its rows."""
        return await self._database.run(
            lambda at: one_page(at, query, order, offset, limit, self._made)
        )

    def _made(self, row: Row[Any]) -> T:
        return self.model.model_validate(row._asdict())


class NumberedTable(ModelTable[T]):
    """Base class of tables whose rows have an ``id``. ``noun`` is the word for a row."""

    noun: ClassVar[str]

    async def get(self, id: int) -> T:
        """Return a row. Raises NotFound."""
        return self._found(await self._first(select(self.table).where(self.table.c.id == id)), id)

    async def change(self, id: int, **values: Any) -> T:
        """Update columns of a row; return the row. Raises NotFound."""
        table = self.table
        statement = update(table).where(table.c.id == id).values(values).returning(table)
        return self._found(await self._first(statement, write=True), id)

    async def _newest(self, query: Select[Any], offset: int, limit: int) -> tuple[list[T], int]:
        """Return one page of a query, newest first, and the total number of its rows."""
        return await self._page(query, [self.table.c.id.desc()], offset, limit)

    def _found(self, row: T | None, id: int) -> T:
        if row is None:
            raise NotFound(f"There is no {self.noun} {id}.")
        return row
