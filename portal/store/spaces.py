"""Common bases of the tables of spaces and of their members; each type of spaces has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Column, Connection, Row, delete, select, update

from portal.errors import Conflict, NotFound
from portal.models.space import Member, SpaceState, StoredSpace
from portal.spaces.registry import space_nouns

from .engine.database import Database
from .engine.rows import ModelTable

S = TypeVar("S", bound=StoredSpace)
M = TypeVar("M", bound=Member)


class SpaceMemberTable(ModelTable[M]):
    """Table of the members of spaces of one type. ``noun``: what these are called, and the column
    with the name of one. Every method raises StoreUnavailable."""

    noun: ClassVar[str]
    updated: ClassVar[tuple[str, ...]] = ("role", "source", "added_by")  # columns, by ``put``

    async def of_space(self, space: str) -> list[M]:
        """Return the members of a space, ordered by name."""
        columns = self.table.c
        query = select(self.table).where(columns[self.noun] == space)
        return await self._models(query.order_by(columns.person))

    async def of_person(self, person: str) -> list[M]:
        """Return a person's memberships, ordered by space."""
        columns = self.table.c
        query = select(self.table).where(columns.person == person)
        return await self._models(query.order_by(columns[self.noun]))

    async def put(self, members: Sequence[M]) -> None:
        """Insert members, or update those who are in the space already."""
        statement = self._database.upsert(self.table, *self.updated)
        rows = [member.model_dump() for member in members]
        if rows:
            await self._write(statement, rows)

    async def remove(self, space: str, people: Sequence[str]) -> None:
        """Remove people from a space; those who are not in it are ignored."""

        def take(to: Connection) -> None:
            for person in people:
                to.execute(delete(self.table).where(self.own(space, person)))

        await self._database.run(take, write=True)

    def own(self, space: str, person: str) -> Any:
        """Return the condition for the row of one member."""
        return (self.table.c[self.noun] == space) & (self.table.c.person == person)


class SpaceTable(ModelTable[S]):
    """Table of the spaces of one type, each with a name that no other space has, of any type.
    ``noun``: what they are called, and the column with the definition. Every method raises
    StoreUnavailable."""

    noun: ClassVar[str]
    member_table: ClassVar[type[SpaceMemberTable[Any]]]
    _names: ClassVar[dict[str, Column[Any]]] = {}  # of all types, by noun

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        SpaceTable._names[cls.noun] = cls.table.c.name

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.members = self.member_table(database)

    async def add_space(self, stored: S, members: Sequence[Member] = ()) -> None:
        """Insert a new space with its first members. Raises Conflict if the name is taken."""
        table, name = self.table, stored.name
        statement = self._database.insert(table).values(_values(stored)).on_conflict_do_nothing()

        def keep(to: Connection) -> str:
            for noun, column in self._names.items():
                if noun != self.noun and to.execute(select(column).where(column == name)).first():
                    return noun
            if not to.execute(statement.returning(table.c.name)).first():
                return self.noun
            if members:
                rows = [member.model_dump() for member in members]
                to.execute(self.members.table.insert(), rows)
            return ""

        if taken := await self._database.run(keep, write=True):
            raise Conflict(f"A {taken} '{name}' already exists. Choose another name.")

    async def save(self, stored: S) -> S:
        """Replace a space by ``stored`` and increment its number. Raises Conflict if
        ``stored.number`` is not the newest, NotFound."""
        table = self.table
        new = stored.model_copy(update={"number": stored.number + 1})
        this = (table.c.name == stored.name) & (table.c.number == stored.number)
        statement = update(table).where(this).values(_values(new)).returning(table)
        saved = await self._first(statement, write=True)
        if saved is None:
            await self.get(stored.name)
            raise Conflict(
                f"Another user has changed this {self.noun} in the meantime. Reload it, then save."
            )
        return saved

    async def get(self, name: str) -> S:
        """Return a space. Raises NotFound."""
        stored = await self._first(select(self.table).where(self.table.c.name == name))
        if stored is None:
            raise NotFound(f"There is no {self.noun} '{name}'.")
        return stored

    async def all(self, *states: SpaceState) -> list[S]:
        """Return the spaces in one of ``states`` (in any if none is given), ordered by name."""
        query = select(self.table).order_by(self.table.c.name)
        if states:
            query = query.where(self.table.c.state.in_([str(state) for state in states]))
        return await self._models(query)

    def _made(self, row: Row[Any]) -> S:
        values = row._asdict()
        del values["name"]
        return self.model(**values)


class Spaces:
    """Spaces of all types. Every method raises StoreUnavailable."""

    def __init__(self, tables: Sequence[SpaceTable[Any]]) -> None:
        self._tables = tables

    async def get(self, name: str) -> StoredSpace:
        """Return a space. Raises NotFound."""
        for table in self._tables:
            try:
                stored: StoredSpace = await table.get(name)
            except NotFound:
                continue
            return stored
        raise NotFound(f"There is no {space_nouns()} '{name}'.")

    async def of_person(self, person: str) -> list[Member]:
        """Return a person's memberships in spaces of all types."""
        return [
            member for table in self._tables for member in await table.members.of_person(person)
        ]


def _values(stored: StoredSpace) -> dict[str, Any]:
    return {"name": stored.name, **stored.model_dump(mode="json")}
