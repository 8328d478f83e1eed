"""Consistent copies of databases in use: SQLite by its backup API, PostgreSQL by pg_dump."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic.script import ScriptDirectory
from jupyterhub.dbutil import ALEMBIC_DIR
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from portal.errors import ConfigurationError, StoreUnavailable
from portal.store.engine.address import Address, without_secrets
from portal.store.engine.upgrade import HEAD, VERSION_TABLE, known_revisions

from .account import program_arguments
from .manifest import Role

TABLES: dict[Role, str] = {"hub": "alembic_version", "portal": VERSION_TABLE}
_SECONDS = 60.0  # to wait for a locked file
_CONNECT = "10"  # seconds to wait for PostgreSQL
_PROGRAMS = "the package postgresql-client (of the server's version or a newer one)"


@dataclass(frozen=True)
class SiteDatabase:
    """Database of the site, and whose tables it has. ``account``: the Hub's."""

    address: Address
    roles: tuple[Role, ...]
    account: str

    @property
    def place(self) -> str:
        return self.address.place


def hub_address(url: str) -> Address:
    """Parse ``c.JupyterHub.db_url``. Raises ConfigurationError, without a password in it."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError("c.JupyterHub.db_url is not a database URL.") from None
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql")
    elif parsed.get_backend_name() != "sqlite":
        raise ConfigurationError(
            f"c.JupyterHub.db_url has the type '{parsed.drivername[:40]}'. Backups are made of "
            "SQLite and PostgreSQL; use the database's own tools for this one."
        )
    return Address.read(parsed.render_as_string(hide_password=False))


def without_password(url: URL) -> str:
    """Return a PostgreSQL URL as its programs take it, without the password."""
    query = {key: value for key, value in url.query.items() if key.lower() != "password"}
    bare = URL.create(
        "postgresql", url.username, None, url.host, url.port, url.database, query=query
    )
    return bare.render_as_string()


def newer_than_known(role: Role, revision: str) -> bool:
    """Return True for a version of the schema that this installation does not know."""
    if not revision:
        return False
    return revision not in (known_revisions() if role == "portal" else _hub_revisions())


def head_of(role: Role) -> str:
    """Return the version of the schema of this installation."""
    return HEAD if role == "portal" else str(_hub_scripts().get_current_head())


def copy_sqlite(database: SiteDatabase, target: Path) -> dict[Role, str]:
    """Copy a file that others may be writing to; return the versions of its tables. Raises
    StoreUnavailable."""
    source = database.address.path
    assert source is not None
    if not source.exists():
        raise StoreUnavailable(
            f"There is no file {source}. Relative paths count from the Hub's working directory: "
            "run this command there."
        )
    end = time.monotonic() + _SECONDS

    def watch(status: int, remaining: int, total: int) -> None:
        if remaining and time.monotonic() > end and status in _BUSY:
            raise StoreUnavailable(f"{source} has been locked for {_SECONDS:g} s. Try again later.")

    try:
        with (
            contextlib.closing(_connected(source)) as original,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            # In one step, which reads one state whatever is written meanwhile
            # (sqlite.org/backup.html).
            original.backup(copy, pages=-1, progress=watch)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file
            (health,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            if health != "ok":
                raise StoreUnavailable(
                    f"{source} is damaged ({' '.join(health.split())[:100]}): no backup was made."
                )
            return {role: _revision(copy, TABLES[role]) for role in database.roles}
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{source} cannot be copied: {error}.") from None


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _connected(path: Path) -> sqlite3.Connection:
    # mode=rw: a reader of a write-ahead log joins its shared memory, and no file is made.
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=_SECONDS)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _revision(connection: sqlite3.Connection, table: str) -> str:
    try:
        row = connection.execute(f"SELECT version_num FROM {table}").fetchone()  # noqa: S608
    except sqlite3.OperationalError:
        return ""
    return str(row[0]) if row else ""


# -- PostgreSQL ----------------------------------------------------------------------------------


def dump_postgresql(database: SiteDatabase, target: Path) -> dict[Role, str]:
    """Write PostgreSQL's own archive of a database; return the versions of its tables. Raises
    StoreUnavailable."""
    revisions = {role: postgresql_revision(database, role) for role in database.roles}
    with target.open("wb") as out:  # opened here: the Hub's account cannot write there
        run_program(
            database, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", stdout=out
        )
    return revisions


def postgresql_revision(database: SiteDatabase, role: Role) -> str:
    """Return the version of the tables; "" if there are none. Raises StoreUnavailable."""
    table = TABLES[role]
    if query(database, f"SELECT to_regclass('{table}') IS NULL") == "t":
        return ""
    return query(database, f"SELECT version_num FROM {table}")  # noqa: S608


def query(database: SiteDatabase, statement: str) -> str:
    """Return what psql prints for a statement. Raises StoreUnavailable."""
    return run_program(database, "psql", "-XAtq", f"--command={statement}").strip()


def run_program(database: SiteDatabase, program: str, *options: str, stdout: Any = None) -> str:
    """Run one of PostgreSQL's programs on the database; return what it prints, unless that goes to
    ``stdout``. Raises StoreUnavailable."""
    argv, more = program_call(database, program, *options)
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=stdout or subprocess.PIPE, stderr=subprocess.PIPE,
        check=False, **more,
    )  # fmt: skip
    if done.returncode:
        raise refused(database, program, done.stderr)
    return done.stdout.decode(errors="replace") if done.stdout else ""


def program_call(
    database: SiteDatabase, program: str, *options: str
) -> tuple[list[str], dict[str, Any]]:
    """Return the words of a call, and its arguments for ``subprocess``. The password is in the
    environment, which only the account's own processes read. Raises StoreUnavailable."""
    if shutil.which(program) is None:
        raise StoreUnavailable(
            f"{program} is missing, which {database.place} needs. Install {_PROGRAMS}."
        )
    more = program_arguments(database.account)
    more["env"] |= {"PGCONNECT_TIMEOUT": _CONNECT, "LC_ALL": "C.UTF-8"}
    if password := password_of(database.address):
        more["env"]["PGPASSWORD"] = password
    url = without_password(database.address.url)
    return [program, "--no-password", f"--dbname={url}", *options], more


def password_of(address: Address) -> str:
    """Return the database's password, of its file or its URL; "" if there is none. Raises
    StoreUnavailable."""
    if address.password_file is None:
        return str(address.url.password or address.url.query.get("password", ""))
    try:
        return address.password_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise StoreUnavailable(
            f"The password of the database cannot be read from {address.password_file}: {reason}."
        ) from None


def refused(database: SiteDatabase, program: str, stderr: bytes) -> StoreUnavailable:
    """Return the error of a program that failed, with its own words."""
    text = without_secrets(stderr.decode(errors="replace"), database.address.url)
    reason = (text or "no reason given").rstrip(".")
    return StoreUnavailable(f"{database.place}: {program} failed: {reason}.")


def _hub_scripts() -> ScriptDirectory:
    return ScriptDirectory(ALEMBIC_DIR)


def _hub_revisions() -> set[str]:
    return {script.revision for script in _hub_scripts().walk_revisions()}
