"""Damaged files of JupyterLab and IPython in the home."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from portal_session.home import damaged_files
from portal_session.places import set_places

SETTINGS = "user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
WORKSPACE = "lab/workspaces/default-37a8.jupyterlab-workspace"
_TABLES = """
CREATE TABLE sessions (session integer primary key autoincrement, start timestamp, end timestamp,
    num_cmds integer, remark text);
CREATE TABLE history (session integer, line integer, source text, source_raw text,
    PRIMARY KEY (session, line));
CREATE TABLE output_history (session integer, line integer, output text,
    PRIMARY KEY (session, line));
"""  # IPython.core.history


@pytest.fixture(autouse=True)
def no_notices() -> Iterator[None]:
    damaged_files.take_notices()
    yield
    damaged_files.take_notices()


def left_after(place: Path, name: str, content: bytes) -> list[str]:
    """Write a file, look for damaged ones, and return the names in its folder."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    environ = {"JUPYTERLAB_SETTINGS_DIR": str(place / "user-settings")}
    damaged_files.set_aside_of_lab(environ, place, place / "data")
    return sorted(entry.name for entry in path.parent.iterdir())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (SETTINGS, b'{"theme": "Jupyter'),
        (SETTINGS, b"[]"),
        (SETTINGS, b"null"),
        (SETTINGS, b"\xff\xfe"),
        (SETTINGS, b"[" * 100_000),
        (WORKSPACE, b""),
        (WORKSPACE, b'{"data": {}, "meta'),
        (WORKSPACE, b'{"data": {}, "metadata": {}}'),
        ("labconfig/page_config.json", b'{"disabled'),
        ("labconfig/page_config.d/mine.json", b'{"disabled'),
        ("data/labextensions/mine/package.json", b'{"na'),
        ("data/labextensions/@mine/mine/package.json", b'{"na'),
    ],
)
def test_a_damaged_file_is_set_aside_with_a_notice(
    tmp_path: Path, name: str, content: bytes
) -> None:
    last = name.rpartition("/")[2]
    assert left_after(tmp_path, name, content) == [f"{last}.damaged"]
    assert (tmp_path / f"{name}.damaged").read_bytes() == content
    effect = "goes without this extension" if "package" in name else "uses its defaults"
    (notice,) = damaged_files.take_notices()
    assert notice.startswith(f"{last} was damaged and is now {last}.damaged. JupyterLab {effect}")
    assert left_after(tmp_path, name, content) == [f"{last}.damaged", f"{last}.damaged2"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (SETTINGS, b""),
        (SETTINGS, b'{"theme": "JupyterLab Dark"}'),
        (SETTINGS, b"// words\n{theme: 'JupyterLab Dark',}"),
        (WORKSPACE, b'{"data": {}, "metadata": {"id": "default"}}'),
        ("labconfig/page_config.json", b""),
        ("labconfig/page_config.json", b"{}"),
        ("data/labextensions/mine/package.json", b'{"name": "mine"}'),
        ("labconfig/other.txt", b"{"),
    ],
)
def test_other_files_stay(tmp_path: Path, name: str, content: bytes) -> None:
    assert left_after(tmp_path, name, content) == [name.rpartition("/")[2]]
    assert damaged_files.take_notices() == []


def test_a_file_that_is_being_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(_: float) -> None:
        (tmp_path / SETTINGS).write_bytes(b"{}")

    monkeypatch.setattr(damaged_files.time, "sleep", finish)
    assert left_after(tmp_path, SETTINGS, b"{") == ["themes.jupyterlab-settings"]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "base/ipython/profile_default/history.sqlite"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.executescript(_TABLES)
    connection.close()
    return path


def test_a_history_without_its_pages_is_set_aside_where_a_job_starts(
    history: Path, tmp_path: Path
) -> None:
    content = history.read_bytes()
    history.write_bytes(content[:4096] + bytes(len(content) - 4096))  # its writes never came
    set_places({"PYTHONUSERBASE": str(tmp_path / "base")})
    assert [path.name for path in history.parent.iterdir()] == ["history.sqlite.damaged"]
    assert "begin a new one" in damaged_files.take_notices()[0]


@pytest.mark.parametrize("state", ["sound", "locked", "new"])
def test_any_other_history_stays_as_it_is(history: Path, tmp_path: Path, state: str) -> None:
    if state == "new":
        history.write_bytes(b"")
    content = history.read_bytes()
    other = sqlite3.connect(history, isolation_level=None)
    if state == "locked":
        other.execute("BEGIN EXCLUSIVE")
    set_places({"PYTHONUSERBASE": str(tmp_path / "base")})
    other.close()
    assert history.read_bytes() == content
    assert [path.name for path in history.parent.iterdir()] == ["history.sqlite"]
