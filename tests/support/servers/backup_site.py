"""A site that is backed up: its folders, its configuration and real databases of both kinds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checkout
from jupyterhub import orm
from sqlalchemy import MetaData, create_engine, select

from portal.models.audit import AuditEntry, Outcome
from portal.store import Store
from portal.store.engine.address import Address

PASSPHRASE = "correct horse battery staple"
SECRET = b"b8d0c2f1" * 8


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
            state / "registry-key": (b"key of registries", 0o600),
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
        return checkout.portal(*words, cwd=self.place)

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
    engine = create_engine(address.url if address.path is None else url)
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


def fill(site: Site) -> None:
    """Make the tables of the Hub and of the portal, with rows."""
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
    asyncio.run(_fill_portal(site.portal_url))


async def _fill_portal(url: str) -> None:
    store = Store(url=url)
    await store.upgrade()
    for number in range(50):
        await store.audit.add_entry(entry(number))
    await store.close()


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        at=time.time(), actor="ada", action="stop-session", target=f"é {number}",
        outcome=Outcome.DONE,
    )  # fmt: skip
