"""The schema: from nothing and from the oldest version to this one, at once by two, and never
backwards."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from conftest import ROOT
from postgres import PostgreSQL
from sqlalchemy import Connection, MetaData, Table, event, inspect, text

from portal.errors import StoreUnavailable
from portal.models.announcement import AnnouncementDraft
from portal.store import HEAD, Store
from portal.store.engine.address import Address
from portal.store.engine.columns import metadata
from portal.store.engine.upgrade import VERSION_TABLE

Make = Callable[..., Store]
DRAFT = AnnouncementDraft(text="Hello", starts_at=1, ends_at=2)


async def differences(store: Store) -> list[object]:
    """Return what Alembic finds different between the database and the tables in the code."""

    def compare(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": VERSION_TABLE,
                "compare_type": True,
                "compare_server_default": True,
            },
        )
        return list(compare_metadata(context, metadata))

    return await store.database.run(compare)


async def test_a_new_database_has_the_tables_that_the_code_knows(store: Store) -> None:
    assert await differences(store) == []


async def test_a_command_makes_the_tables_of_each_work(make_store: Make, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/portal.sqlite"
    command = [sys.executable, "-m", "portal", "database", "upgrade", f"--url={url}"]
    subprocess.run(command, cwd=ROOT, check=True)
    assert await differences(make_store(url)) == []


async def test_the_migrations_make_the_tables_that_the_code_knows(
    former_url: str, make_store: Make
) -> None:
    store = make_store(former_url)
    await store.upgrade()
    assert await differences(store) == []


async def test_every_index_of_the_code_is_there(store: Store) -> None:
    """Alembic does not compare primary keys and SQLite's unnamed constraints."""

    def look(connection: Connection) -> None:
        found = inspect(connection)
        for table in metadata.tables.values():
            keys = found.get_pk_constraint(table.name)["constrained_columns"]
            assert keys == [column.name for column in table.primary_key.columns], table.name
            names = {index["name"] for index in found.get_indexes(table.name)}
            assert {str(index.name) for index in table.indexes} <= names, table.name

    await store.database.run(look)


async def test_upgrading_again_keeps_everything(url: str, make_store: Make) -> None:
    first, second = make_store(url), make_store(url)
    assert not Path(first.database.address.path or "/nothing").exists()
    await first.upgrade()
    kept = await first.announcements.add_announcement(DRAFT, "grace", 1)
    await second.upgrade()
    await first.upgrade()
    assert await second.announcements.all() == ([kept], 1)
    assert await second.revision() == HEAD


async def test_many_upgrade_at_once(url: str, make_store: Make) -> None:
    """The Hub and the service start together: processes, and threads of one process."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "portal", "database", "upgrade", f"--url={url}"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    stores = [make_store(url) for _ in range(3)]
    await asyncio.gather(*(store.upgrade() for store in stores))
    for process in processes:
        said, _ = await asyncio.to_thread(process.communicate, timeout=120)
        assert process.returncode == 0, said
    count = text(f"SELECT version_num FROM {VERSION_TABLE}")
    found = await stores[0].database.run(lambda at: list(at.execute(count).scalars()))
    assert found == [HEAD]


async def test_the_second_waits_for_the_first(sqlite_url: str, make_store: Make) -> None:
    lock = Path(sqlite_url.removeprefix("sqlite:///") + ".lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        upgrading = asyncio.ensure_future(make_store(sqlite_url).upgrade())
        await asyncio.sleep(0.5)
        assert not upgrading.done()
        assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()
    await asyncio.wait_for(upgrading, 20)


async def test_sessions_of_the_version_before_have_work_and_space(
    former_url: str, make_store: Make
) -> None:
    sessions = {
        "own": ("", "", {}),
        "marimo": ("second", "", {"kind": "marimo"}),
        "board": ("tensorboard", "", {"tensorboard": ["~"]}),
        "kernel": ("kernel-5e2f3c1a", "deep", {"kernel": {"id": "5e2f3c1a", "course": "deep"}}),
        "run": ("run-5e2f3c1a", "", {"run": {"id": "5e2f3c1a"}}),
        "course": ("course-deep", "deep", {"course": "deep"}),
        "room": ("room-deep", "deep", {"course": "deep"}),
    }

    def write(connection: Connection) -> None:
        old = Table("sessions", MetaData(), autoload_with=connection)
        usual = {column.name: "" for column in old.columns if not column.nullable}
        for id_, (server, course, options) in sessions.items():
            row = {"id": id_, "user": "ada", "server": server, "course": course}
            more = {"state": "running", "submitted_at": 1.0, "partition_automatic": False}
            row["ending_message"] = "The session ended: its server exited with code 1."
            lists = {"groups": [], "nodes": [], "options": options}
            connection.execute(old.insert().values({**usual, **row, **more, **lists}))

    engine = Address.read(former_url).engine(0, 1)
    with engine.begin() as connection:
        write(connection)
    engine.dispose()
    store = make_store(former_url)
    await store.upgrade()
    records = {record.id: record for record in await store.sessions.living()}
    assert {id_: (record.work, record.space) for id_, record in records.items()} == {
        "own": ("jupyterlab", ""),
        "marimo": ("marimo", ""),
        "board": ("tensorboard", ""),
        "kernel": ("kernel", "deep"),
        "run": ("run", ""),
        "course": ("jupyterlab", "deep"),
        "room": ("room", "deep"),
    }
    messages = {id_: records[id_].ending_message for id_ in ("own", "kernel", "run")}
    assert messages == {
        "own": "The session ended: its server exited with code 1.",
        "kernel": "The kernel ended: its program exited with code 1.",
        "run": "The run ended: its server exited with code 1.",
    }


SECOND = f"""
import sqlalchemy as sa
from alembic import op
revision = "9999"
down_revision = "{HEAD}"
def upgrade():
    with op.batch_alter_table("announcements") as table:
        table.add_column(sa.Column("colour", sa.Text(), server_default="red", nullable=False))
    op.create_index("ix_announcements_colour", "announcements", ["colour"])
"""


async def test_the_next_version_upgrades_what_this_one_wrote(
    url: str, make_store: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_store(url)
    await old.upgrade()
    kept = await old.announcements.add_announcement(DRAFT, "grace", 1)
    scripts = tmp_path / "migrations"
    shutil.copytree(ROOT / "portal/store/migrations", scripts)
    (scripts / "versions/v9999_next.py").write_text(SECOND.replace("HEAD", HEAD))
    monkeypatch.setattr("portal.store.engine.upgrade._HERE", str(scripts))
    monkeypatch.setattr("portal.store.engine.upgrade._scripts", ScriptDirectory(str(scripts)))
    for module in ("upgrade", "database"):
        monkeypatch.setattr(f"portal.store.engine.{module}.HEAD", "9999")
    waiting = make_store(url)  # it was not told to upgrade
    with pytest.raises(StoreUnavailable, match="does not have the tables of this version"):
        await waiting.announcements.all()
    await make_store(url).upgrade()
    assert await waiting.announcements.all() == ([kept], 1)
    colours = text("SELECT colour FROM announcements")
    assert await waiting.database.run(lambda at: list(at.execute(colours).scalars())) == ["red"]
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable, match=r"newer version \(9999\)"):
        await make_store(url).upgrade()


async def set_version(store: Store, version: str) -> None:
    statement = text(f"UPDATE {VERSION_TABLE} SET version_num = :version")
    await store.database.run(lambda to: to.execute(statement, {"version": version}), write=True)


async def test_a_newer_database_is_refused_and_left_alone(url: str, make_store: Make) -> None:
    older = make_store(url)
    await older.upgrade()
    await older.announcements.add_announcement(DRAFT, "grace", 1)
    await set_version(older, "9999")
    store = make_store(url)
    for ask in (store.upgrade, store.announcements.all, store.sessions.living):
        with pytest.raises(StoreUnavailable, match=r"newer version \(9999\).*Nothing was changed"):
            await ask()
    assert "newer version" in store.error
    assert (await older.announcements.all())[1] == 1
    await set_version(older, HEAD)  # the right portal was installed
    assert (await store.announcements.all())[1] == 1
    assert store.error == ""


async def test_without_tables_and_without_leave_to_make_them(url: str, make_store: Make) -> None:
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).touch(0o600)
    store = make_store(url)
    with pytest.raises(StoreUnavailable, match=r"does not have .*portal database upgrade"):
        await store.sessions.living()
    assert await store.revision() is None
    await make_store(url).upgrade()
    assert await store.sessions.living() == []


async def test_tables_that_vanish_are_told_and_made_anew(
    postgres_url: str, make_store: Make
) -> None:
    """An empty copy was put back while the portal runs."""
    store = make_store(postgres_url)
    await store.upgrade()
    drop = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
    await store.database.run(lambda to: to.exec_driver_sql(drop), write=True)
    with pytest.raises(StoreUnavailable, match="does not have the tables"):
        await store.sessions.living()
    assert await store.sessions.living() == []


async def test_a_failed_upgrade_leaves_nothing_half_done(url: str, make_store: Make) -> None:
    def fail(*_: object, **__: object) -> None:
        1 / 0  # noqa: B018

    event.listen(metadata, "after_create", fail)
    store = make_store(url)
    try:
        with pytest.raises(ZeroDivisionError):
            await store.upgrade()
    finally:
        event.remove(metadata, "after_create", fail)
    assert await store.revision() is None
    assert inspect(store.database.engine).get_table_names() == []
    await store.upgrade()
    assert await store.sessions.living() == []


async def test_a_failed_migration_leaves_nothing_half_done(
    former_url: str, make_store: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "migrations"
    shutil.copytree(ROOT / "portal/store/migrations", broken)
    step = broken / "versions/v0019_work.py"
    step.write_text(step.read_text() + "    1 / 0\n")
    monkeypatch.setattr("portal.store.engine.upgrade._HERE", str(broken))
    store = make_store(former_url)
    with pytest.raises(ZeroDivisionError):
        await store.upgrade()
    assert await store.revision() == "0018"
    columns = {column["name"] for column in inspect(store.database.engine).get_columns("sessions")}
    assert "course" in columns
    assert not {"work", "space"} & columns
    monkeypatch.undo()
    await store.upgrade()
    assert await store.sessions.living() == []


async def test_a_database_from_before_the_first_release_is_refused(
    url: str, make_store: Make
) -> None:
    store = make_store(url)
    await store.upgrade()
    await set_version(store, "0005")
    with pytest.raises(StoreUnavailable, match=r"version 0005, from before .*Nothing was changed"):
        await make_store(url).upgrade()


async def test_sqlites_files_are_only_for_their_owner(tmp_path: Path, make_store: Make) -> None:
    store = make_store(f"sqlite:///{tmp_path}/portal.sqlite")
    before = os.umask(0o022)
    try:
        await store.upgrade()
    finally:
        os.umask(before)
    await store.announcements.add_announcement(DRAFT, "grace", 1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {"portal.sqlite", "portal.sqlite-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
async def test_root_makes_the_file_for_the_folders_owner(tmp_path: Path, make_store: Make) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    store = make_store(f"sqlite:///{folder}/portal.sqlite")
    await store.upgrade()
    await store.announcements.add_announcement(DRAFT, "grace", 1)
    assert {path.stat().st_uid for path in folder.iterdir()} == {65534}


async def test_a_database_that_cannot_hold_all_letters_is_refused(
    postgres: PostgreSQL, make_store: Make
) -> None:
    url = postgres.new("ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreUnavailable, match="encoding LATIN1; it must be UTF8"):
        await make_store(url).upgrade()
