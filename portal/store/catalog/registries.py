"""Registries that images are pulled from. ``secret`` is encrypted before it comes here. Written by
the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Row, Table, delete, select

from portal.models.catalog.catalog import KeptRegistry, Registry

from ..engine.columns import COUNT, NAME, TEXT, TIME, metadata
from ..engine.database import Database

registries = Table(
    "registries",
    metadata,
    Column("host", NAME, primary_key=True),
    Column("username", NAME, nullable=False),
    Column("secret", TEXT, nullable=False),
    Column("password_file", TEXT, nullable=False),
    Column("mirror", NAME, nullable=False),
    Column("insecure", COUNT, nullable=False),
    Column("ca_file", TEXT, nullable=False),
    Column("author", NAME, nullable=False),
    Column("at", TIME, nullable=False),
)


class RegistryTable:
    """The table of registries. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, registry: Registry, secret: str) -> None:
        """Insert a registry, or replace the one of the same host."""
        values = registry.model_dump(exclude={"has_password"}) | {
            "secret": secret,
            "insecure": int(registry.insecure),
        }
        statement = self._database.upsert(registries)
        await self._database.run(lambda to: to.execute(statement, values), write=True)

    async def remove(self, host: str) -> bool:
        """Delete a registry; return True if there was one."""
        statement = delete(registries).where(registries.c.host == host)
        return await self._database.run(lambda to: bool(to.execute(statement).rowcount), write=True)

    async def all(self) -> list[KeptRegistry]:
        """Return every registry, ordered by host."""
        query = select(registries).order_by(registries.c.host)
        return await self._database.run(lambda at: [_kept(row) for row in at.execute(query)])


def _kept(row: Row[Any]) -> KeptRegistry:
    values = row._asdict()
    secret = values.pop("secret")
    registry = Registry(**values, has_password=bool(secret or values["password_file"]))
    return KeptRegistry(registry, secret)
