"""The Hub's database writes ahead (spawners/hub_database.py)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from jupyterhub import orm
from jupyterhub.app import JupyterHub
from sqlalchemy import create_engine, event, text

from spawners import hub_database
from spawners.hub_patches import database_ping


def modes(url: str) -> tuple[str, int]:
    """How the Hub's connection writes, and whether a commit waits for the disk (2: it does)."""
    hub = JupyterHub(db_url=url)
    hub_database.watch(hub)
    hub.init_db()
    db = hub.db
    mode = db.execute(text("PRAGMA journal_mode")).scalar_one()
    waits = db.execute(text("PRAGMA synchronous")).scalar_one()
    db.add(orm.User(name="ada"))
    db.commit()
    assert db.query(orm.User).count() == 1
    db.close()
    return mode, waits


def test_a_file_writes_ahead_and_waits_for_the_disk(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jupyterhub.sqlite"
    assert modes(url) == ("wal", 2)


def test_every_connection_of_the_hub_does_and_nobody_elses(tmp_path: Path) -> None:
    """The file remembers it; other databases of the process are not asked."""
    url = f"sqlite:///{tmp_path}/jupyterhub.sqlite"
    modes(url)
    for name, mode in (("jupyterhub", "wal"), ("other", "delete")):
        engine = create_engine(f"sqlite:///{tmp_path}/{name}.sqlite")
        with engine.connect() as one, engine.connect() as another:
            for connection in (one, another):
                assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == mode


@pytest.mark.parametrize(("dialect", "asked"), [("sqlite", 0), ("postgresql", 1)])
def test_a_server_is_asked_whether_it_is_there_and_a_file_is_not(
    monkeypatch: pytest.MonkeyPatch, dialect: str, asked: int
) -> None:
    monkeypatch.setattr(orm, "register_ping_connection", orm.register_ping_connection)
    database_ping.apply()
    engine = create_engine("sqlite://")
    monkeypatch.setattr(engine.dialect, "name", dialect)
    orm.register_ping_connection(engine)
    monkeypatch.undo()
    said: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *what: said.append(what[2]))
    with engine.connect() as connection:
        connection.execute(text("SELECT 2"))
    assert said == [*["SELECT 1"] * asked, "SELECT 2"]


def test_what_cannot_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(sqlite3.Connection):
        def execute(self, sql: str, *rest: object) -> sqlite3.Cursor:
            if "journal_mode" in sql and "=" in sql:
                raise sqlite3.OperationalError("locking protocol")
            return super().execute(sql, *rest)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3.dbapi2, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Refusing})
    )
    assert modes(f"sqlite:///{tmp_path}/jupyterhub.sqlite") == ("delete", 2)
