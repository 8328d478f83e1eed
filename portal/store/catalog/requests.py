"""People's requests to the catalog, and their favourites in it. Written by the service only."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select

from portal.models.catalog.catalog import EnvironmentRequest, EnvironmentRequestDraft, RequestState

from ..engine.columns import NAME, TEXT, TIME, filled, keyed, keys, numbered, optional
from ..engine.listing import instant
from ..engine.rows import NumberedTable, StoreTable

requests = numbered(
    "environment_requests",
    *filled(NAME, "person", "state", "answered_by", "environment"),
    *filled(TEXT, "source", "text", "answer"),
    *filled(TIME, "at"),
    *optional(TIME, "answered_at"),
)
favourites = keyed(
    "environment_favourites",
    *keys(NAME, "person", "name"),
    *filled(TIME, "at"),
)


class EnvironmentRequestTable(NumberedTable[EnvironmentRequest]):
    """The table of requests. Every method raises StoreUnavailable."""

    table, model, noun = requests, EnvironmentRequest, "request"

    async def add_request(
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
        condition = (requests.c.person == person) & (requests.c.state == RequestState.OPEN)

        def keep(to: Connection) -> EnvironmentRequest | None:
            if most is not None:
                if to.execute(select(func.count()).where(condition)).scalar_one() >= most:
                    return None
            return self._made(to.execute(statement).one())

        return await self._database.run(keep, write=True)

    async def answer(
        self, id: int, state: RequestState, answer: str, by: str, at: float, environment: str = ""
    ) -> EnvironmentRequest:
        """Close a request. Raises NotFound."""
        values = {"answer": answer, "answered_by": by, "answered_at": instant(at, "at")}
        return await self.change(id, state=state, environment=environment, **values)

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
        return await self._newest(query, offset, limit)


class FavouriteTable(StoreTable):
    """The table of favourites. Every method raises StoreUnavailable."""

    async def set(self, person: str, name: str, at: float) -> None:
        """Insert the environment ``name`` as a favourite of ``person``."""
        values = {"person": person, "name": name, "at": instant(at, "at")}
        await self._write(self._database.insert(favourites).values(values).on_conflict_do_nothing())

    async def remove(self, person: str, name: str) -> None:
        """Delete a favourite, if it exists."""
        this = (favourites.c.person == person) & (favourites.c.name == name)
        await self._write(delete(favourites).where(this))

    async def of_user(self, person: str) -> list[str]:
        """Return the names of a person's favourites, oldest first."""
        query = (
            select(favourites.c.name)
            .where(favourites.c.person == person)
            .order_by(favourites.c.at, favourites.c.name)
        )
        return await self._database.run(lambda at: list(at.execute(query).scalars()))
