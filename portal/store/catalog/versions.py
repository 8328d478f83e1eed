"""Versions of environments: who changed what, when. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import UniqueConstraint, delete, func, select, update

from portal.errors import NotFound
from portal.models.catalog.catalog import EnvironmentVersion, Origin
from portal.models.catalog.environment import Environment, EnvironmentState

from ..engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, numbered, optional
from ..engine.listing import instant
from ..engine.rows import ModelTable

versions = numbered(
    "environment_versions",
    *filled(NAME, "name", "state", "author", "origin", "file_hash"),
    *filled(COUNT, "number"),
    *optional(COUNT, "base", "build_id"),
    *filled(Json, "environment"),
    *filled(TIME, "at"),
    *optional(TIME, "published_at"),
    *filled(TEXT, "comment", "message"),
    UniqueConstraint("name", "number"),
)


class VersionTable(ModelTable[EnvironmentVersion]):
    """The table of versions. Every method raises StoreUnavailable."""

    table, model = versions, EnvironmentVersion

    async def add_version(
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
        return await self._insert(values)

    async def change(self, name: str, number: int, **values: Any) -> EnvironmentVersion:
        """Update columns of a version (``state``, ``message``, ``environment``, ``build_id``,
        ``file_hash``, ``published_at``, ``comment``). Raises NotFound."""
        if isinstance(values.get("environment"), Environment):
            values["environment"] = _document(values["environment"])
        this = (versions.c.name == name) & (versions.c.number == number)
        statement = update(versions).where(this).values(values).returning(versions)
        return _found(await self._first(statement, write=True), name, number)

    async def remove(self, name: str, number: int) -> None:
        """Delete a version that came to nothing: its file could not be written."""
        this = (versions.c.name == name) & (versions.c.number == number)
        await self._write(delete(versions).where(this))

    async def get(self, name: str, number: int) -> EnvironmentVersion:
        """Return a version. Raises NotFound."""
        query = select(versions).where(versions.c.name == name, versions.c.number == number)
        return _found(await self._first(query), name, number)

    async def of_environment(
        self, name: str, offset: int = 0, limit: int = 50
    ) -> tuple[list[EnvironmentVersion], int]:
        """Return one page of an environment's versions, newest first, and their total number."""
        query = select(versions).where(versions.c.name == name)
        return await self._page(query, [versions.c.number.desc()], offset, limit)

    async def newest(self) -> dict[str, EnvironmentVersion]:
        """Return the newest version of every environment, by name."""
        number = func.max(versions.c.number).label("number")
        last = select(versions.c.name, number).group_by(versions.c.name).subquery()
        query = select(versions).join(
            last, (versions.c.name == last.c.name) & (versions.c.number == last.c.number)
        )
        return {version.name: version for version in await self._models(query)}

    async def with_hash(self, name: str, file_hash: str) -> EnvironmentVersion | None:
        """Return the newest version of ``name`` whose file has this hash."""
        query = (
            select(versions)
            .where(versions.c.name == name, versions.c.file_hash == file_hash)
            .order_by(versions.c.number.desc())
            .limit(1)
        )
        return await self._first(query)

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
        return {version.name: version for version in await self._models(query)}

    async def published_at(self, name: str, at: float) -> EnvironmentVersion | None:
        """Return the version of ``name`` that was published at a time (Unix seconds); None if none
        was."""
        query = select(versions).where(versions.c.name == name, versions.c.published_at <= at)
        newest = versions.c.published_at.desc(), versions.c.number.desc()
        return await self._first(query.order_by(*newest).limit(1))

    async def of_build(self, build_id: int) -> list[EnvironmentVersion]:
        """Return the versions that a build is for, oldest first."""
        query = select(versions).where(versions.c.build_id == build_id).order_by(versions.c.id)
        return await self._models(query)

    async def in_state(self, *states: EnvironmentState) -> list[EnvironmentVersion]:
        """Return all versions in one of ``states``, oldest first."""
        query = select(versions).where(versions.c.state.in_(states)).order_by(versions.c.id)
        return await self._models(query)


def _document(environment: Environment) -> dict[str, Any]:
    return environment.model_dump(mode="json", exclude_unset=True)


def _found(version: EnvironmentVersion | None, name: str, number: int) -> EnvironmentVersion:
    if version is None:
        raise NotFound(f"The environment '{name[:63]}' has no version {number}.")
    return version
