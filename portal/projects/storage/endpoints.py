"""``api/v1/projects/{project}/storages``, and ``session/storages``: S3-compatible storages of a
project, whose keys its owners store and its members' sessions use."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from portal.errors import InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation, Query
from portal.handlers.base.own_session import OwnSession
from portal.models import Frozen
from portal.models.plain_text import PLAIN_LINE

from ..access import OWNERS, ProjectAction
from ..audit import ProjectAudit
from ..models import WORKERS
from .tables import ProjectStorageTable, StoredStorage

MOST = 20  # storages of a project
_KEY = r"^[\x21-\x7e]+$"  # visible ASCII, as S3's keys are
StorageName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$"), Field(examples=["results"])
]


def _is_endpoint(url: str) -> str:
    """Return the URL of a server of S3. Raises ValueError for another: a path, a user or a query
    would be sent with each request, and without TLS others read the data."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("an address such as https://s3.example.org is needed")
    parts.port  # noqa: B018 - raises ValueError
    if "@" in parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(
            "only the server's host and port are needed, such as https://s3.example.org"
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError("https is needed: without it, others in the network read the data")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class StorageFields(Frozen):
    """Storage. ``endpoint``: the server's URL; ``region``: "" for the server's default."""

    name: StorageName
    endpoint: Annotated[
        str,
        StringConstraints(max_length=300, pattern=r"^[\x21-\x7e]+$"),
        AfterValidator(_is_endpoint),
        Field(examples=["https://s3.example.org"]),
    ]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{0,50}$")] = ""
    access_key: Annotated[str, StringConstraints(pattern=_KEY, max_length=200)]


class NewStorage(StorageFields):
    """Storage with its secret key, which the portal encrypts and shows to nobody."""

    secret_key: Annotated[str, StringConstraints(pattern=_KEY, max_length=1000), Field(repr=False)]


class Storage(StorageFields):
    """Storage as the members of its project see it."""

    added_by: str
    added_at: float


class StorageList(Frozen):
    """Storages of a project, by name."""

    items: tuple[Storage, ...]


class OwnStorages(Frozen):
    """Storages with their secret keys, for a session."""

    items: tuple[NewStorage, ...]


class StorageQuery(Query):
    """Storage to remove."""

    name: Annotated[str, Field(max_length=100), *PLAIN_LINE]


def _shown(stored: StoredStorage) -> Storage:
    return Storage(**stored.model_dump(include=set(Storage.model_fields)))


class ProjectStorages(ProjectAction):
    """Storages of a project. Readers and admins who are not in it have no use for them."""

    path = "projects/{project}/storages"
    roles = WORKERS
    changers = OWNERS
    admins = False

    @Operation("List the S3-compatible storages of a project.")
    async def on_get(self, project: str) -> StorageList:
        """Return them without their secret keys."""
        stored = await self.parts.store.table(ProjectStorageTable).of_project(project)
        return StorageList(items=tuple(map(_shown, stored)))

    @Operation("Add an S3-compatible storage, or replace it.", body=NewStorage)
    async def on_post(self, project: str) -> Storage:
        """Store its address and keys. Sessions of owners and members can use them, so these people
        can read them, too: name keys that open nothing but this project's buckets."""
        asked: NewStorage = self.body
        async with self.audited(
            ProjectAudit.SET_PROJECT_STORAGE, f"project {project}", detail=f"Storage {asked.name}."
        ):
            table = self.parts.store.table(ProjectStorageTable)
            others = {each.name for each in await table.of_project(project)} - {asked.name}
            if len(others) >= MOST:
                raise InvalidRequest(f"A project can have at most {MOST} storages.", "name")
            secrets = self.parts.registries.secrets
            stored = StoredStorage(
                **asked.model_dump(exclude={"secret_key"}),
                project=project,
                secret=await asyncio.to_thread(secrets.encrypt, asked.secret_key),
                added_by=self.person.name,
                added_at=time.time(),
            )
            await table.put(stored)
        return _shown(stored)

    @Operation("Remove a storage from a project.", query=StorageQuery)
    async def on_delete(self, project: str) -> Confirmation:
        """Delete its address and keys here. What is stored there stays."""
        name = self.query.name
        async with self.audited(
            ProjectAudit.REMOVE_PROJECT_STORAGE, f"project {project}", detail=f"Storage {name}."
        ):
            if not await self.parts.store.table(ProjectStorageTable).remove(project, name):
                raise NotFound(f"The project has no storage '{name}'.")
        return self.done(f"The storage '{name}' is removed. What is stored there stays.")


class SessionStorages(OwnSession):
    """Storages of the project of the session that asks."""

    path = "session/storages"

    @Operation("List the storages of this session's project, with their keys.")
    async def on_get(self) -> OwnStorages:
        """Use the session's own token only."""
        record = await self.own_record()
        try:
            memberships = self.parts.memberships.of_type("project")
            membership = await memberships.membership(record.user, record.space)
        except (NotAllowed, NotFound):
            raise NotFound("This session belongs to no project, so it has no storages.") from None
        if membership.role not in WORKERS:
            raise NotAllowed("Readers of a project have no keys of its storages.")
        decrypt = self.parts.registries.secrets.decrypted
        items = []
        for stored in await self.parts.store.table(ProjectStorageTable).of_project(record.space):
            key = await asyncio.to_thread(
                decrypt, stored.secret, f"the secret key of the storage '{stored.name}'"
            )
            fields = stored.model_dump(include=set(StorageFields.model_fields))
            items.append(NewStorage(**fields, secret_key=key))
        self.set_header("Cache-Control", "no-store")
        return OwnStorages(items=tuple(items))


ENDPOINTS = (ProjectStorages, SessionStorages)
