"""Registries that images are pulled from. ``secret`` is encrypted before it comes here. Written by
the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete, select

from portal.models.catalog.catalog import Registry, StoredRegistry

from ..engine.columns import COUNT, NAME, TEXT, TIME, filled, keyed, keys
from ..engine.rows import StoreTable

registries = keyed(
    "registries",
    *keys(NAME, "host"),
    *filled(NAME, "username", "mirror", "author"),
    *filled(TEXT, "secret", "password_file", "ca_file"),
    *filled(COUNT, "insecure"),
    *filled(TIME, "at"),
)


class RegistryTable(StoreTable):
    """The table of registries. Every method raises StoreUnavailable."""

    async def set(self, registry: Registry, secret: str) -> None:
        """Insert a registry, or replace the one of the same host."""
        values = registry.model_dump(exclude={"has_password"}) | {
            "secret": secret,
            "insecure": int(registry.insecure),
        }
        await self._write(self._database.upsert(registries), values)

    async def remove(self, host: str) -> bool:
        """Delete a registry; return True if there was one."""
        return bool(await self._write(delete(registries).where(registries.c.host == host)))

    async def all(self) -> list[StoredRegistry]:
        """Return every registry, ordered by host."""
        rows = await self._rows_of(select(registries).order_by(registries.c.host))
        return [_stored(row) for row in rows]


def _stored(row: Row[Any]) -> StoredRegistry:
    values = row._asdict()
    secret = values.pop("secret")
    registry = Registry(**values, has_password=bool(secret or values["password_file"]))
    return StoredRegistry(registry, secret)
