"""The Hub's database, where it is a file of SQLite, writes ahead into a log.

JupyterHub commits from the event loop, some eight times for a launch. With SQLite's own way (a
journal beside the file, made and removed for each commit) the disk is waited for three or four
times in each, with a log once (https://www.sqlite.org/wal.html). Every commit is still on the disk
when it returns: a Hub whose machine lost its power knows the sessions that it had started.

Nor is it asked before each transaction whether it is there, as JupyterHub asks (jupyterhub/orm.py,
register_ping_connection): a server can be away, a file cannot.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.engine import Engine

_ping = orm.register_ping_connection


@event.listens_for(Engine, "connect")
def _connected(connection: Any, _record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        # On a file system of the network it cannot be, and stays as it was.
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA journal_mode = WAL")


def _ping_servers(engine: Engine) -> None:
    if engine.dialect.name != "sqlite":
        _ping(engine)


orm.register_ping_connection = _ping_servers
