"""Builds of images. Written by the service only."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Table, select

from portal.models.catalog.catalog import Build
from portal.models.catalog.image_job import WorkState

from ..engine.columns import NAME, ROW, TEXT, TIME, Json, metadata
from .image_work import WorkTable

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


class BuildTable(WorkTable[Build]):
    """The table of builds. Every method raises StoreUnavailable."""

    table, model, noun = builds, Build, "build"

    async def add(
        self, *, key: str, source: str, digest: str, asker: str, nonce: str, log: str, at: float
    ) -> Build:
        """Insert a new build, WAITING; return it with its id."""
        own = {"key": key, "source": source, "digest": digest, "askers": [asker]}
        return await self._add(nonce, log, at, **own)

    async def with_key(self, key: str, *states: WorkState) -> Build | None:
        """Return the newest build with ``key`` in one of ``states``."""
        query = (
            select(builds)
            .where(builds.c.key == key, builds.c.state.in_(states))
            .order_by(builds.c.id.desc())
            .limit(1)
        )
        row = await self._database.run(lambda at: at.execute(query).first())
        return None if row is None else self._made(row)
