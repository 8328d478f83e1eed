"""Upgrade of the schema to this version: a new database gets the tables that the code knows, an
earlier one Alembic's migrations in ``migrations/versions``.

The Hub and its service may both do it at the same moment: the second one waits for a lock, and
finds nothing left to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from portal.errors import ConfigurationError, StoreUnavailable

from .address import CONNECT_SECONDS, NO_TRANSACTION, WRITE, Address
from .columns import metadata

VERSION_TABLE = "portal_version"  # JupyterHub's is alembic_version: both may share a database
_LOCK_SECONDS = 120  # to wait for another process that upgrades
_LOCK_NUMBER = 7_075_674_107  # any number, the same in every process (pg_advisory_xact_lock)

_HERE = str(Path(__file__).parents[1] / "migrations")
_scripts = ScriptDirectory(_HERE)
HEAD = str(_scripts.get_current_head())
_OLDEST = str(_scripts.get_base())


def revision_of(connection: Connection) -> str | None:
    """Return the version of the schema; None if there is none. Raises StoreUnavailable if this
    version of the portal does not know it."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    revision = context.get_current_revision()
    if revision is not None and revision not in known_revisions():
        if revision < _OLDEST:
            raise StoreUnavailable(
                f"The portal's database has version {revision}, from before the portal's first "
                f"release; this portal ({HEAD}) upgrades from {_OLDEST} on. Nothing was changed. "
                "Begin with a new database (c.Store.url)."
            )
        raise StoreUnavailable(
            f"The portal's database has a newer version ({revision}) than this portal "
            f"({HEAD}). Nothing was changed. Install the newer portal again, or restore the backup "
            "from before the upgrade (portal restore FILE)."
        )
    return revision


def known_revisions() -> set[str]:
    """Return the versions of the schema that this portal can upgrade, its own among them."""
    return {script.revision for script in _scripts.walk_revisions()}


def ensure_known(address: Address) -> None:
    """Raise StoreUnavailable if the schema is of a version that this one does not know; not if the
    database is missing or away: then the first query that reaches it tells."""
    if address.missing:
        return
    engine = address.engine(CONNECT_SECONDS, 1)
    try:
        with engine.connect() as connection:
            revision_of(connection)
    except (SQLAlchemyError, ConfigurationError):
        return
    finally:
        engine.dispose()


def upgrade(address: Address) -> None:
    """Upgrade to this version in one transaction: all or nothing. Creates SQLite's file if there
    is none. Raises StoreUnavailable and SQLAlchemy's errors."""
    with _file_lock(address.path) if address.path else contextlib.nullcontext():
        if address.path is not None:
            _make_file(address.path)
        engine = address.engine(0, 1)
        try:
            if address.path is not None:
                with engine.connect().execution_options(**NO_TRANSACTION) as connection:
                    # Readers and one writer at the same time; kept in the file
                    # (sqlite.org/wal.html).
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            with engine.connect().execution_options(**WRITE) as connection, connection.begin():
                if address.path is None:
                    _lock_postgresql(connection)
                revision = revision_of(connection)
                if revision is None:
                    _create(connection)
                elif revision != HEAD:
                    _migrate(connection)
        finally:
            engine.dispose()


def _create(connection: Connection) -> None:
    """Create all tables. Fails if one of them is there: whose it is is not known."""
    metadata.create_all(connection, checkfirst=False)
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    context.stamp(_scripts, HEAD)


def _migrate(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", _HERE.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)


def _lock_postgresql(connection: Connection) -> None:
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"The portal's database has the encoding {encoding}; it must be UTF8. "
            "Create a new database: "
            "createdb --encoding=UTF8 --template=template0."
        )
    connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Lock out other processes that would upgrade the database at ``path``."""
    lock = path.with_name(path.name + ".lock")
    descriptor = _opened(lock, os.O_RDWR | os.O_CREAT)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StoreUnavailable(
                        "Another process has been upgrading the portal's database for "
                        f"{_LOCK_SECONDS} s. Find the process that holds the lock: "
                        f"`fuser {lock.name}`."
                    ) from None
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _make_file(path: Path) -> None:
    """Create an empty file that only this account reads. An existing one is never opened here:
    closing it would drop SQLite's own locks (sqlite.org/howtocorrupt.html, 2.2)."""
    if not path.exists():
        os.close(_opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))


def _opened(path: Path, flags: int) -> int:
    """Return a descriptor; a new file gets mode 0600, and its folder's owner if root makes it."""
    try:
        new = not path.exists()
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if new and os.geteuid() == 0:
            folder = path.parent.stat()
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    except OSError as error:
        raise StoreUnavailable(
            f"The portal's database cannot be created or upgraded: {path.name}: {error.strerror}. "
            "The Hub's account needs write access to its folder (c.Store.url)."
        ) from None
    return descriptor
