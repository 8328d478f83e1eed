"""People's requests to the catalog, and their favourites in it. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Row, Table, delete, func, select, update

from portal.errors import NotFound
from portal.models.catalog.catalog import EnvironmentRequest, EnvironmentRequestDraft, RequestState

from ..engine.columns import NAME, ROW, TEXT, TIME, metadata
from ..engine.database import Database
from ..engine.listing import instant, one_page

requests = Table(
    "environment_requests",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("person", NAME, nullable=False),
    Column("source", TEXT, nullable=False),
    Column("text", TEXT, nullable=False),
    Column("state", NAME, nullable=False),
    Column("at", TIME, nullable=False),
    Column("answer", TEXT, nullable=False),
    Column("answered_by", NAME, nullable=False),
    Column("answered_at", TIME),
    Column("environment", NAME, nullable=False),
    sqlite_autoincrement=True,
)
favourites = Table(
    "environment_favourites",
    metadata,
    Column("person", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("at", TIME, nullable=False),
)


class EnvironmentRequestTable:
    """The table of requests. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, draft: EnvironmentRequestDraft, person: str, at: float, most: int | None = None
    ) -> EnvironmentRequest | None:
        """Insert ``draft``; return it with its id. None if ``person`` has ``most`` open requests
        already: then nothing is inserted."""
        values = draft.model_dump() | {
            "person": person,
            "state": RequestState.OPEN,
            "at": instant(at, "at"),
            "answer": "",
            "answered_by": "",
            "environment": "",
        }
        statement = requests.insert().values(values).returning(requests)
        mine = (requests.c.person == person) & (requests.c.state == RequestState.OPEN)

        def keep(to: Connection) -> EnvironmentRequest | None:
            if most is not None:
                if to.execute(select(func.count()).where(mine)).scalar_one() >= most:
                    return None
            return _request(to.execute(statement).one())

        return await self._database.run(keep, write=True)

    async def get(self, id: int) -> EnvironmentRequest:
        """Return a request. Raises NotFound."""
        query = select(requests).where(requests.c.id == id)
        return _found(await self._database.run(lambda at: at.execute(query).first()), id)

    async def answer(
        self, id: int, state: RequestState, answer: str, by: str, at: float, environment: str = ""
    ) -> EnvironmentRequest:
        """Close a request. Raises NotFound."""
        values = {
            "state": state,
            "answer": answer,
            "answered_by": by,
            "answered_at": instant(at, "at"),
            "environment": environment,
        }
        statement = update(requests).where(requests.c.id == id).values(values)
        statement = statement.returning(requests)
        return _found(
            await self._database.run(lambda to: to.execute(statement).first(), write=True), id
        )

    async def all(
        self,
        person: str = "",
        offset: int = 0,
        limit: int = 50,
        state: RequestState | None = None,
    ) -> tuple[list[EnvironmentRequest], int]:
        """Return one page, newest first, and the total number; of one person if ``person`` is
        given, in one state if ``state`` is."""
        query = select(requests)
        if state is not None:
            query = query.where(requests.c.state == state)
        if person:
            query = query.where(requests.c.person == person)
        order = [requests.c.id.desc()]
        return await self._database.run(
            lambda at: one_page(at, query, order, offset, limit, _request)
        )


class FavouriteTable:
    """The table of favourites. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, person: str, name: str, at: float) -> None:
        """Insert the environment ``name`` as a favourite of ``person``."""
        values = {"person": person, "name": name, "at": instant(at, "at")}
        statement = self._database.insert(favourites).values(values).on_conflict_do_nothing()
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def remove(self, person: str, name: str) -> None:
        """Delete a favourite, if it exists."""
        this = (favourites.c.person == person) & (favourites.c.name == name)
        await self._database.run(lambda to: to.execute(delete(favourites).where(this)), write=True)

    async def of(self, person: str) -> list[str]:
        """Return the names of a person's favourites, oldest first."""
        query = (
            select(favourites.c.name)
            .where(favourites.c.person == person)
            .order_by(favourites.c.at, favourites.c.name)
        )
        return await self._database.run(lambda at: list(at.execute(query).scalars()))


def _found(row: Row[Any] | None, id: int) -> EnvironmentRequest:
    if row is None:
        raise NotFound(f"There is no request {id}.")
    return _request(row)


def _request(row: Row[Any]) -> EnvironmentRequest:
    return EnvironmentRequest.model_validate(row._asdict())
