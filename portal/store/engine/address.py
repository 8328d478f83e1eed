"""Address of the database, from the setting ``Store.url``, and connections to it."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import QueuePool

from portal.errors import ConfigurationError

CONNECT_SECONDS = 5  # to wait for a connection, and for SQLite's lock
# SQLite: a transaction that reads first and writes later could not wait for its turn
# (sqlite.org/lang_transaction.html).
WRITE = {"sqlite_begin": "BEGIN IMMEDIATE"}
NO_TRANSACTION = {"sqlite_begin": ""}


@dataclass(frozen=True)
class Address:
    """Address of a database. ``path`` is SQLite's file; None for PostgreSQL."""

    url: URL
    path: Path | None = None
    password_file: Path | None = None

    @classmethod
    def read(cls, text: str, password_file: str = "") -> Address:
        """Parse the settings; a relative path counts from the working directory. Raises
        ConfigurationError, never with the URL in it: it may contain a password."""
        try:
            url = make_url(text.strip())
        except (ArgumentError, ValueError):
            raise ConfigurationError(
                "c.Store.url is not a database URL. Examples: sqlite:///portal.sqlite, "
                "postgresql://portal@db.example.org/portal."
            ) from None
        if url.drivername in ("sqlite", "sqlite+pysqlite"):
            if not url.database or url.database.startswith((":memory:", "file:")) or url.query:
                raise ConfigurationError(
                    "c.Store.url must name a regular file: the Hub and the service share the "
                    "database. Example: sqlite:////var/lib/data-scientist-portal/portal.sqlite"
                )
            return cls(url, Path(url.database).absolute())
        if url.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
            file = Path(password_file).absolute() if password_file else None
            return cls(url.set(drivername="postgresql+psycopg"), None, file)
        raise ConfigurationError(
            f"c.Store.url has the type '{url.drivername[:40]}'. Supported are SQLite "
            "(sqlite:///FILE) and PostgreSQL (postgresql://USER@HOST/DATABASE)."
        )

    @property
    def place(self) -> str:
        """Location in words, for logs and admins; without the password."""
        if self.path is not None:
            return f"SQLite file {self.path}"
        host = self.url.host or self.url.query.get("host") or "its default socket"
        port = f":{self.url.port}" if self.url.port else ""
        return f"PostgreSQL at {host}{port}, database '{self.url.database or self.url.username}'"

    @property
    def missing(self) -> bool:
        """Return True if SQLite's file does not exist; False if its folder may not be searched."""
        try:
            return self.path is not None and not self.path.exists()
        except PermissionError:
            return False

    def engine(self, seconds: float, connections: int) -> Engine:
        """Return an engine: at most ``connections``, ``seconds`` for a statement (0: any)."""
        patience = min(CONNECT_SECONDS, seconds / 2) if seconds else CONNECT_SECONDS
        if self.path is not None:
            return self._sqlite(self.path, patience, connections)
        return self._postgresql(seconds, patience, connections)

    def _postgresql(self, seconds: float, patience: float, connections: int) -> Engine:
        engine = create_engine(
            self.url,
            hide_parameters=True,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=patience,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": max(2, round(patience)),  # libpq takes 1 for 2
                "application_name": "data-scientist-portal",
                # For a server that vanishes without closing (tcp(7), TCP_USER_TIMEOUT).
                "keepalives_idle": 30,
                "tcp_user_timeout": int(seconds * 1000),
                **self.url.query,
            },
        )

        @event.listens_for(engine, "do_connect")
        def give_password(dialect: Any, record: Any, args: Any, parameters: Any) -> None:
            if self.password_file is not None:  # read each time: it may have been renewed
                parameters["password"] = _secret(self.password_file)

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, record: Any) -> None:
            # Not among the start-up options, which a pgbouncer in between would refuse.
            connection.execute(f"SET statement_timeout = {int(seconds * 1000)}")
            connection.execute("SET idle_in_transaction_session_timeout = 60000")
            connection.commit()

        return engine

    def _sqlite(self, path: Path, patience: float, connections: int) -> Engine:
        def connect() -> sqlite3.Connection:
            # mode=rw: only `upgrade` makes a file.
            connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode=rw",
                uri=True,
                timeout=patience,
                isolation_level=None,  # `begin` below says BEGIN, not the driver
                check_same_thread=False,
            )
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("PRAGMA synchronous = NORMAL")
            except sqlite3.Error:
                connection.close()
                raise
            return connection

        engine = create_engine(
            "sqlite://",
            creator=connect,
            hide_parameters=True,
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=patience,
        )

        @event.listens_for(engine, "connect")
        def remember(connection: Any, record: Any) -> None:
            record.info["file"] = _inode(path)

        @event.listens_for(engine, "checkout")
        def compare(connection: Any, record: Any, proxy: Any) -> None:
            # After a restored copy or a mounted file system, the open file is the old one.
            if record.info.get("file") != _inode(path):
                raise DisconnectionError

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            statement = connection.get_execution_options().get("sqlite_begin", "BEGIN")
            if statement:
                connection.exec_driver_sql(statement)

        return engine


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _secret(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(
            f"The password of the database cannot be read from {path}: {reason}."
        ) from None


def without_secrets(text: str, url: URL) -> str:
    """Return a driver's ``text`` for the log: on one line, without the password."""
    if url.password:
        text = text.replace(str(url.password), "***")
    text = re.sub(r"(password\s*=\s*)\S+", r"\1***", text, flags=re.I)
    return " ".join(text.split())[:400]
