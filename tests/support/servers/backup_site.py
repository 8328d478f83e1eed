"""A site that is backed up: its folders, its configuration and real databases of both kinds."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checkout
from jupyterhub import orm
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    create_engine,
    select,
)

import portal.backup.command  # noqa: F401  once, and not in each command
import spawners.spawner  # noqa: F401
from portal.directory import LDAPAuthenticator  # noqa: F401
from portal.images.registry.credentials import Secrets
from portal.models.audit import AuditEntry, Outcome
from portal.projects.storage.tables import ProjectStorageTable, StoredStorage
from portal.store import Store
from portal.store.engine.address import Address
from portal.store.engine.columns import metadata

PASSPHRASE = "correct horse battery staple"
SECRET = b"b8d0c2f1" * 8
REGISTRY_KEY = base64.urlsafe_b64encode(b"key of registries".ljust(32))
STORAGE_KEY = "secret key of a storage"


@dataclass
class Site:
    """A site below ``place``, and its two databases."""

    place: Path
    hub_url: str
    portal_url: str
    more: str = ""
    files: dict[Path, tuple[bytes, int]] = field(default_factory=dict)

    def write(self) -> None:
        """Write the configuration and the files that it names."""
        etc, state = self.etc, self.state
        for folder in (etc / "environments", etc / "models", state / "kept/own", self.registries):
            folder.mkdir(parents=True, exist_ok=True)
        contents = {
            state / "cookie-secret": (SECRET, 0o600),
            state / "registry-key": (REGISTRY_KEY, 0o600),
            self.registries / "nvcr": (b"nvcr-password", 0o600),
            etc / "secrets.env": (b"CONFIGPROXY_AUTH_TOKEN=hunter2hunter2", 0o600),
            etc / "environments/a.yaml": (b"name: a\n", 0o644),
            etc / "models/m.yaml": (b"name: m\n", 0o644),
            state / "kept/own/ada.yaml": (b"name: own\n", 0o640),
            self.config: (self._configuration().encode(), 0o644),
        }
        for path, (content, mode) in contents.items():
            path.write_bytes(content)
            path.chmod(mode)
        self.files = contents

    def _configuration(self) -> str:
        return f"""
c = get_config()
c.JupyterHub.db_url = {self.hub_url!r}
c.JupyterHub.cookie_secret_file = "{self.state}/cookie-secret"
c.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"
c.JupyterHub.authenticator_class = "portal.directory.LDAPAuthenticator"
c.Store.url = {self.portal_url!r}
c.Secrets.key_file = "{self.state}/registry-key"
c.Secrets.password_directory = "{self.registries}"
c.EnvironmentCatalog.directory = "{self.etc}/environments"
c.EnvironmentCatalog.kept_directory = "{self.state}/kept"
{self.more}
"""

    @property
    def etc(self) -> Path:
        return self.place / "etc"

    @property
    def state(self) -> Path:
        return self.place / "state"

    @property
    def registries(self) -> Path:
        return self.etc / "registries"

    @property
    def config(self) -> Path:
        return self.etc / "jupyterhub_config.py"

    @property
    def backups(self) -> Path:
        return self.place / "backups"

    @property
    def passphrase_file(self) -> Path:
        return self.place / "passphrase"

    def portal(self, *words: str | Path) -> Any:
        return checkout.portal_forked(*words, cwd=self.place)

    def backup(self, target: Path, *words: str, sealed: bool = True) -> Any:
        """Run ``portal backup`` to its end."""
        key = [f"--passphrase-file={self.passphrase_file}"] if sealed else []
        return self.portal("backup", f"--config={self.config}", *key, *words, target)

    def restore(self, file: Path, *words: str, sealed: bool = True) -> Any:
        """Run ``portal restore`` to its end."""
        key = [f"--passphrase-file={self.passphrase_file}"] if sealed else []
        return self.portal("restore", *key, *words, file)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of both databases, by table."""
        return {
            f"{role}.{table}": rows
            for role, url in (("hub", self.hub_url), ("portal", self.portal_url))
            for table, rows in rows_of(url).items()
        }

    def rows_of_hub(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of the Hub's database, by table."""
        return rows_of(self.hub_url)

    def destroy(self) -> None:
        """Delete every file of the site."""
        for folder in (self.etc, self.state):
            for path in sorted(folder.rglob("*"), reverse=True):
                if path.is_dir():
                    path.rmdir()
                else:
                    path.unlink()
            folder.rmdir()


def rows_of(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a database, by table, in one order."""
    address = Address.read(url)
    if address.path is not None:
        return _rows_of_file(address.path)
    engine = create_engine(address.url)
    try:
        metadata = MetaData()
        with engine.connect() as connection:
            metadata.reflect(connection)
            return {
                name: sorted(map(tuple, connection.execute(select(table))), key=repr)
                for name, table in metadata.tables.items()
            }
    finally:
        engine.dispose()


def _rows_of_file(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the same of SQLite's file, where looking for columns takes longer than the rows."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr)
            for (name,) in tables.fetchall()
        }


def fill(site: Site) -> None:
    """Make the tables of the Hub and of the portal, with rows, as of a Hub that has run."""
    (site.state / "hub.sqlite.in-use").touch(0o600)
    url = site.hub_url.replace("postgresql://", "postgresql+psycopg://")
    factory = orm.new_session_factory(url)
    with factory() as session:
        user = orm.User(name="ada")
        session.add(user)
        session.flush()
        spawner = orm.Spawner(name="", user=user, state={"job_id": "17"})
        session.add(spawner)
        session.commit()
    factory.kw["bind"].dispose()
    asyncio.run(_fill_portal(site.portal_url, site.state / "registry-key"))


async def _fill_portal(url: str, key_file: Path) -> None:
    store = Store(url=url)
    await store.upgrade()
    await store.database.run(_fill_tables, write=True)
    for number in range(50):
        await store.audit.add_entry(entry(number))
    secret = Secrets(key_file=str(key_file)).encrypt(STORAGE_KEY)
    stored = {name: "kept" for name in StoredStorage.model_fields} | {"secret": secret}
    await store.table(ProjectStorageTable).put(StoredStorage(**stored | {"added_at": 1.0}))
    await store.close()


def _fill_tables(connection: Connection) -> None:
    """Add a row to each table of the portal, whatever it has."""
    for table in metadata.sorted_tables:
        if table.name != "audit":  # it has checks of its own
            values = {column.name: _value(column) for column in table.columns}
            connection.execute(table.insert().values(values))


def _value(column: Column[Any]) -> Any:
    kinds: dict[Any, Any] = {JSON: {"kept": 1}, Boolean: True, Float: 1.5, Integer: 7}
    kinds[LargeBinary] = b"kept"
    return next((kinds[kind] for kind in kinds if isinstance(column.type, kind)), "kept")


def storage_key(url: str, key_file: Path) -> str:
    """Return the secret key of the project's storage, decrypted with the site's key."""

    async def read() -> str:
        store = Store(url=url)
        try:
            (stored,) = await store.table(ProjectStorageTable).of_project("kept")
        finally:
            await store.close()
        return Secrets(key_file=str(key_file)).decrypted(stored.secret, "the key")

    return asyncio.run(read())


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        at=time.time(), actor="ada", action="stop-session", target=f"é {number}",
        outcome=Outcome.DONE,
    )  # fmt: skip
