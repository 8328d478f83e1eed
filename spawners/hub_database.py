"""The Hub's database, where it is a file of SQLite, writes ahead into a log.

JupyterHub commits from the event loop, some eight times for a launch. With SQLite's own way (a
journal beside the file, made and removed for each commit) the disk is waited for three or four
times in each, with a log once (https://www.sqlite.org/wal.html). Every commit is still on the disk
when it returns: a Hub whose machine lost its power knows the sessions that it had started.

The file itself remembers it, so it is said once, when the Hub has opened its database.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from jupyterhub.app import JupyterHub
from sqlalchemy.engine import Engine


def watch(hub: JupyterHub) -> None:
    """Begin the log of ``hub``'s database as soon as it is open, before anything is written."""
    hub.observe(_opened, names="session_factory")


def _opened(change: Any) -> None:
    begin_log(change.new.kw["bind"])


def begin_log(engine: Engine) -> None:
    """Let the database of ``engine`` write ahead, where it is SQLite."""
    if engine.dialect.name != "sqlite":
        return
    pooled = engine.raw_connection()
    try:
        # On a file system of the network it cannot be, and stays as it was.
        with contextlib.suppress(sqlite3.Error):
            connection: Any = pooled.driver_connection
            connection.execute("PRAGMA journal_mode = WAL")
            # The log is made at the first look, and stays while a connection of the pool is open.
            connection.execute("SELECT count(*) FROM sqlite_master")
    finally:
        pooled.close()
