"""Versions of environments: who changed what, when. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Row,
    Table,
    UniqueConstraint,
    delete,
    func,
    select,
    update,
)

from portal.errors import NotFound
from portal.models.catalog.catalog import EnvironmentVersion, Origin
from portal.models.catalog.environment import Environment, EnvironmentState

from ..engine.columns import COUNT, NAME, ROW, TEXT, TIME, Json, metadata
from ..engine.database import Database
from ..engine.listing import instant, one_page

versions = Table(
    "environment_versions",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("number", COUNT, nullable=False),
    Column("state", NAME, nullable=False),
    Column("environment", Json, nullable=False),
    Column("author", NAME, nullable=False),
    Column("at", TIME, nullable=False),
    Column("origin", NAME, nullable=False),
    Column("comment", TEXT, nullable=False),
    Column("message", TEXT, nullable=False),
    Column("base", COUNT),
    Column("build_id", COUNT),
    Column("file_hash", NAME, nullable=False),
    Column("published_at", TIME),
    UniqueConstraint("name", "number"),
    sqlite_autoincrement=True,
)


class VersionTable:
    """The table of versions. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        environment: Environment,
        *,
        author: str,
        at: float,
        origin: Origin,
        state: EnvironmentState = EnvironmentState.DRAFT,
        comment: str = "",
        base: int | None = None,
        file_hash: str = "",
        published_at: float | None = None,
    ) -> EnvironmentVersion:
        """Insert a new version of ``environment.name``; return it with its number."""
        number = (
            select(func.coalesce(func.max(versions.c.number), 0) + 1)
            .where(versions.c.name == environment.name)
            .scalar_subquery()
        )
        values = {
            "name": environment.name,
            "number": number,
            "state": state,
            "environment": _document(environment),
            "author": author,
            "at": instant(at, "at"),
            "origin": origin,
            "comment": comment,
            "message": "",
            "base": base,
            "file_hash": file_hash,
            "published_at": published_at,
        }
        statement = versions.insert().values(values).returning(versions)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return _version(row)

    async def change(self, name: str, number: int, **values: Any) -> EnvironmentVersion:
        """Update columns of a version (``state``, ``message``, ``environment``, ``build_id``,
        ``file_hash``, ``published_at``, ``comment``). Raises NotFound."""
        if isinstance(values.get("environment"), Environment):
            values["environment"] = _document(values["environment"])
        this = (versions.c.name == name) & (versions.c.number == number)
        statement = update(versions).where(this).values(values).returning(versions)
        row = await self._database.run(lambda to: to.execute(statement).first(), write=True)
        if row is None:
            raise NotFound(f"The environment '{name[:63]}' has no version {number}.")
        return _version(row)

    async def remove(self, name: str, number: int) -> None:
        """Delete a version that came to nothing: its file could not be written."""
        this = (versions.c.name == name) & (versions.c.number == number)
        await self._database.run(lambda to: to.execute(delete(versions).where(this)), write=True)

    async def get(self, name: str, number: int) -> EnvironmentVersion:
        """Return a version. Raises NotFound."""
        query = select(versions).where(versions.c.name == name, versions.c.number == number)
        row = await self._database.run(lambda at: at.execute(query).first())
        if row is None:
            raise NotFound(f"The environment '{name[:63]}' has no version {number}.")
        return _version(row)

    async def of(
        self, name: str, offset: int = 0, limit: int = 50
    ) -> tuple[list[EnvironmentVersion], int]:
        """Return one page of an environment's versions, newest first, and their total number."""
        query = select(versions).where(versions.c.name == name)
        order = [versions.c.number.desc()]
        return await self._database.run(
            lambda at: one_page(at, query, order, offset, limit, _version)
        )

    async def newest(self) -> dict[str, EnvironmentVersion]:
        """Return the newest version of every environment, by name."""
        return await self._database.run(lambda at: _last(at, versions.c.id > 0))

    async def with_hash(self, name: str, file_hash: str) -> EnvironmentVersion | None:
        """Return the newest version of ``name`` whose file has this hash."""
        query = (
            select(versions)
            .where(versions.c.name == name, versions.c.file_hash == file_hash)
            .order_by(versions.c.number.desc())
            .limit(1)
        )
        row = await self._database.run(lambda at: at.execute(query).first())
        return None if row is None else _version(row)

    async def published(self) -> dict[str, EnvironmentVersion]:
        """Return the version of every environment that was published last, by name."""
        place = func.row_number().over(
            partition_by=versions.c.name,
            order_by=[versions.c.published_at.desc(), versions.c.number.desc()],
        )
        ranked = (
            select(versions.c.id, place.label("place"))
            .where(versions.c.published_at.is_not(None))
            .subquery()
        )
        query = select(versions).join(ranked, versions.c.id == ranked.c.id)
        query = query.where(ranked.c.place == 1)
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return {row.name: _version(row) for row in rows}

    async def of_build(self, build_id: int) -> list[EnvironmentVersion]:
        """Return the versions that a build is for, oldest first."""
        query = select(versions).where(versions.c.build_id == build_id).order_by(versions.c.id)
        return await self._database.run(lambda at: [_version(row) for row in at.execute(query)])

    async def in_state(self, *states: EnvironmentState) -> list[EnvironmentVersion]:
        """Return all versions in one of ``states``, oldest first."""
        query = select(versions).where(versions.c.state.in_(states)).order_by(versions.c.id)
        return await self._database.run(lambda at: [_version(row) for row in at.execute(query)])


def _last(connection: Connection, condition: Any) -> dict[str, EnvironmentVersion]:
    number = func.max(versions.c.number).label("number")
    last = select(versions.c.name, number).where(condition).group_by(versions.c.name).subquery()
    query = select(versions).join(
        last, (versions.c.name == last.c.name) & (versions.c.number == last.c.number)
    )
    return {row.name: _version(row) for row in connection.execute(query)}


def _document(environment: Environment) -> dict[str, Any]:
    return environment.model_dump(mode="json", exclude_unset=True)


def _version(row: Row[Any]) -> EnvironmentVersion:
    return EnvironmentVersion.model_validate(row._asdict())
