"""Table of projects' storages. Written by the service only."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from sqlalchemy import delete, select

from portal.models import Frozen
from portal.store.engine.columns import NAME, TEXT, TIME, filled, keyed, keys
from portal.store.engine.rows import ModelTable

project_storages = keyed(
    "project_storages",
    *keys(NAME, "project", "name"),
    *filled(TEXT, "endpoint", "region", "access_key", "secret"),
    *filled(NAME, "added_by"),
    *filled(TIME, "added_at"),
)


class StoredStorage(Frozen):
    """Storage with its ``secret``, the encrypted secret key."""

    project: str
    name: str
    endpoint: str
    region: str
    access_key: str
    secret: Annotated[str, Field(repr=False)]
    added_by: str
    added_at: float


class ProjectStorageTable(ModelTable[StoredStorage]):
    """The table of storages. Every method raises StoreUnavailable."""

    table, model = project_storages, StoredStorage

    async def put(self, stored: StoredStorage) -> None:
        """Insert a storage, or replace the one of its name."""
        changed = [name for name in StoredStorage.model_fields if name not in ("project", "name")]
        await self._write(self._database.upsert(project_storages, *changed), stored.model_dump())

    async def of_project(self, project: str) -> list[StoredStorage]:
        """Return a project's storages, by name."""
        columns = project_storages.c
        query = select(project_storages).where(columns.project == project)
        return await self._models(query.order_by(columns.name))

    async def remove(self, project: str, name: str) -> bool:
        """Remove a storage and its key; return False if there is none."""
        columns = project_storages.c
        this = (columns.project == project) & (columns.name == name)
        return bool(await self._write(delete(project_storages).where(this)))
