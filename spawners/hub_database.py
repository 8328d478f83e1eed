"""Write-ahead log of the Hub's database, where that is a file of SQLite.

JupyterHub commits from the event loop, some eight times per launch. In SQLite's default mode (a
journal beside the file, made and removed for each commit) each commit waits for the disk three or
four times, with a write-ahead log once (https://www.sqlite.org/wal.html). Every commit is still on
the disk when it returns: a Hub whose machine lost power knows the sessions that it had started.

The mode is stored in the file, so it is set once, when the Hub has opened its database.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from jupyterhub.app import JupyterHub
from sqlalchemy.engine import Engine


def watch(hub: JupyterHub) -> None:
    """Start the log of ``hub``'s database as soon as it is open, before anything is written."""
    hub.observe(_opened, names="session_factory")


def _opened(change: Any) -> None:
    begin_log(change.new.kw["bind"])


def begin_log(engine: Engine) -> None:
    """Set the database of ``engine`` to write-ahead logging, if it is SQLite."""
    if engine.dialect.name != "sqlite":
        return
    pooled = engine.raw_connection()
    try:
        # Not possible on a network file system: the mode stays as it was.
        with contextlib.suppress(sqlite3.Error):
            connection: Any = pooled.driver_connection
            connection.execute("PRAGMA journal_mode = WAL")
            # The first query creates the log, which stays while a pooled connection is open.
            connection.execute("SELECT count(*) FROM sqlite_master")
    finally:
        pooled.close()
