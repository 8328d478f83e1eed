"""Databases that own the space for their next changes, and words where a disk is full."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import OperationalError

from portal import disk
from portal.handlers.base.base import explain
from portal.store.engine.faults import fault_of

ROOM = 1024 * 1024


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "some.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE kept (words TEXT)")
        connection.execute("INSERT INTO kept VALUES ('of before')")
    return path


def spare(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (pages,), (size,) = (
            connection.execute(f"PRAGMA {name}").fetchone()
            for name in ("freelist_count", "page_size")
        )
    return int(pages * size)


def test_a_database_owns_more_than_it_uses(database: Path) -> None:
    assert disk.keep_room(database, ROOM)
    assert spare(database) >= ROOM
    with sqlite3.connect(database) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        assert tables == [("kept",)]
        assert connection.execute("SELECT * FROM kept").fetchall() == [("of before",)]


def test_it_is_asked_for_once(database: Path) -> None:
    assert disk.keep_room(database, ROOM)
    size = database.stat().st_size
    assert disk.keep_room(database, ROOM)
    assert database.stat().st_size == size


def test_a_database_that_is_written_to_is_left_alone(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: real(*args, **more, timeout=0.1))
    writer = real(database, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert not disk.keep_room(database, ROOM)
    writer.execute("COMMIT")
    writer.close()
    assert disk.keep_room(database, ROOM), "another time"


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_text("This is none. " * 1000)
    assert not disk.keep_room(path, ROOM)
    assert path.read_text() == "This is none. " * 1000


@pytest.mark.parametrize("inside", ["", "to-be-made", "to/be/made"])
def test_the_space_of_a_folder_that_is_not_there_yet(tmp_path: Path, inside: str) -> None:
    left = disk.free(tmp_path / inside)
    assert left is not None and left > 0


@pytest.mark.parametrize(("left", "full"), [(0, True), (disk.LEAST - 1, True), (disk.LEAST, False)])
def test_nothing_is_begun_on_a_full_disk(
    tmp_path: Path, left: int, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: SimpleNamespace(free=left))
    if not full:
        return disk.ensure_space(tmp_path)
    with pytest.raises(disk.DiskFull, match="The portal's disk is full") as raised:
        disk.ensure_space(tmp_path)
    assert raised.value.status == 507
    return None


def test_where_nobody_says_what_is_free_all_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(disk.shutil, "disk_usage", refused)
    disk.ensure_space(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_service_says_what_it_is(number: int) -> None:
    code, words = explain(507, (OSError, OSError(number, "/secret/place"), None))
    assert (code, words) == ("disk_full", disk.FULL)
    assert "secret" not in words
    assert explain(500, (OSError, OSError(errno.EIO, "x"), None))[0] == "internal_server_error"


def test_a_database_without_space_says_so() -> None:
    said = OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))
    fault = fault_of(said)
    assert fault is not None and "its disk is full" in fault.error().message
