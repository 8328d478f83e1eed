"""Builds of images. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Double, Index, Row, Table, select, update

from portal.errors import NotFound
from portal.models.catalog import Build
from portal.models.image_job import LIVE, WorkState

from .columns import NAME, ROW, TEXT, TIME, Json, metadata
from .database import Database
from .listing import instant, one_page

builds = Table(
    "image_builds",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("key", NAME, nullable=False),
    Column("source", TEXT, nullable=False),
    Column("digest", NAME, nullable=False),
    Column("state", NAME, nullable=False),
    Column("askers", Json, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("nonce", NAME, nullable=False),
    Column("log", NAME, nullable=False),
    Column("step", NAME, nullable=False),
    Column("share", Double),
    Column("message", TEXT, nullable=False),
    Column("asked_at", TIME, nullable=False),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    Column("result", Json),
    Index(None, "key"),
    Index(None, "state"),
    sqlite_autoincrement=True,
)


class BuildTable:
    """The table of builds. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, *, key: str, source: str, digest: str, asker: str, nonce: str, log: str, at: float
    ) -> Build:
        """Keep a new build, WAITING; what is returned has its id."""
        values = {
            "key": key,
            "source": source,
            "digest": digest,
            "state": WorkState.WAITING,
            "askers": [asker],
            "job_id": "",
            "nonce": nonce,
            "log": log,
            "step": "",
            "message": "",
            "asked_at": instant(at, "at"),
        }
        statement = builds.insert().values(values).returning(builds)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return _build(row)

    async def change(self, id: int, **values: Any) -> Build:
        """Set columns of one. Raises NotFound."""
        statement = update(builds).where(builds.c.id == id).values(values).returning(builds)
        row = await self._database.run(lambda to: to.execute(statement).first(), write=True)
        return _found(row, id)

    async def get(self, id: int) -> Build:
        """One build. Raises NotFound."""
        query = select(builds).where(builds.c.id == id)
        return _found(await self._database.run(lambda at: at.execute(query).first()), id)

    async def live(self) -> list[Build]:
        """Those that are not over, the oldest first."""
        query = select(builds).where(builds.c.state.in_(LIVE)).order_by(builds.c.id)
        return await self._database.run(lambda at: [_build(row) for row in at.execute(query)])

    async def with_key(self, key: str, *states: WorkState) -> Build | None:
        """The newest one with ``key`` in one of ``states``."""
        query = (
            select(builds)
            .where(builds.c.key == key, builds.c.state.in_(states))
            .order_by(builds.c.id.desc())
            .limit(1)
        )
        row = await self._database.run(lambda at: at.execute(query).first())
        return None if row is None else _build(row)

    async def all(self, offset: int = 0, limit: int = 50) -> tuple[list[Build], int]:
        """One page, the newest first, and how many there are in all."""
        order = [builds.c.id.desc()]
        return await self._database.run(
            lambda at: one_page(at, select(builds), order, offset, limit, _build)
        )


def _found(row: Row[Any] | None, id: int) -> Build:
    if row is None:
        raise NotFound(f"There is no build {id}.")
    return _build(row)


def _build(row: Row[Any]) -> Build:
    return Build.model_validate(row._asdict())
