"""Builds of images. Written by the service only."""

from __future__ import annotations

from sqlalchemy import Double, Index, select

from portal.models.catalog.catalog import Build
from portal.models.catalog.image_job import WorkState

from ..engine.columns import NAME, TEXT, Json, filled, numbered, optional
from .image_work import WorkTable, work_columns

builds = numbered(
    "image_builds",
    *filled(NAME, "key", index=True),
    *filled(TEXT, "source"),
    *filled(NAME, "digest"),
    *filled(Json, "askers"),
    *work_columns(),
    *optional(Double, "share"),
    Index(None, "state"),
)


class BuildTable(WorkTable[Build]):
    """The table of builds. Every method raises StoreUnavailable."""

    table, model, noun = builds, Build, "build"

    async def add_build(
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
        return await self._first(query)
