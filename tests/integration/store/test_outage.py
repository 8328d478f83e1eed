"""The database away: errors in words, nothing hangs, and it recovers by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from machine import patience
from machine_clock import awake
from postgres import PASSWORD, PostgreSQL
from session_records import recorded
from sqlalchemy import make_url

from portal.errors import ConfigurationError, StoreUnavailable
from portal.models.cluster.history import ClusterSample
from portal.models.session.usage import JobUsage
from portal.store import Store
from portal.store.engine.address import without_secrets

Make = Callable[..., Store]


async def answers(store: Store, seconds: float = 60) -> None:
    """Wait until the store has recovered."""
    end = time.monotonic() + patience(seconds)
    while True:
        await store.check()
        if not store.error:
            return
        assert time.monotonic() < end, store.error
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def loop_stays_free(longest: float = 1.0) -> AsyncIterator[None]:
    """Fails when the event loop was held up longer: who waits for the database there waits for two
    seconds, and a busy machine takes a third of one away."""
    pauses = [0.0]

    async def tick() -> None:
        while True:
            before = awake()
            await asyncio.sleep(0.01)
            pauses.append(awake() - before)

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0)  # it has looked at the clock
    try:
        yield
    finally:
        await asyncio.sleep(0.05)  # so that a pause just now is seen
        ticking.cancel()
    assert max(pauses) < longest


# -- PostgreSQL ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_postgresql_stops_and_comes_back(
    own_postgres: PostgreSQL,
    make_store: Make,
    caplog: pytest.LogCaptureFixture,
    how: signal.Signals,
) -> None:
    caplog.set_level(logging.INFO, "store")
    store = make_store(own_postgres.new())
    await store.upgrade()
    await store.history.add_samples(ClusterSample(at=1000, gpus_total=8))
    began = time.time()
    own_postgres.stop(how)
    async with loop_stays_free():
        for ask in (store.sessions.living, store.announcements.all, store.usage.accounted_until):
            with pytest.raises(StoreUnavailable, match=r"^The portal's database ") as caught:
                await ask()
            assert "SELECT" not in caught.value.message
            assert "127.0.0.1" not in caught.value.message  # what the log and the doctor tell
        await store.check()  # raises nothing
    assert store.error
    assert store.error_since is not None and began <= store.error_since <= time.time()
    own_postgres.start()
    await answers(store)
    assert store.error_since is None
    (point, *_) = await store.history.points(960, 1020, 10)
    assert point.gpus_total == 8
    told = [record.getMessage() for record in caplog.records if record.name == "store"]
    assert len([line for line in told if "does not answer" in line]) == 1, told
    assert told[-1] == "The database answers again."
    assert str(own_postgres.port) in told[0]
    assert PASSWORD not in caplog.text


async def test_postgresql_comes_up_after_the_portal(
    own_postgres: PostgreSQL, make_store: Make
) -> None:
    """The Hub starts without its database; the first question that reaches it makes the tables."""
    url = own_postgres.new()
    own_postgres.stop()
    store = make_store(url)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await store.upgrade()
    own_postgres.start()
    await answers(store)
    assert await store.sessions.living() == []


async def test_a_restart_that_nobody_saw(own_postgres: PostgreSQL, make_store: Make) -> None:
    store = make_store(own_postgres.new())
    await store.upgrade()
    await asyncio.gather(*(store.sessions.living() for _ in range(8)))  # open connections
    own_postgres.stop()
    own_postgres.start()
    for _ in range(8):
        assert await store.sessions.living() == []


async def test_a_frozen_postgresql_holds_nobody_up(
    own_postgres: PostgreSQL, make_store: Make
) -> None:
    """It takes connections and answers nothing, as a machine that swaps does."""
    store = make_store(own_postgres.new())
    await store.upgrade()
    await asyncio.gather(*(store.sessions.living() for _ in range(8)))  # open connections
    store.database.seconds = 2
    own_postgres.freeze()
    began = awake()
    async with loop_stays_free():
        asked = [store.sessions.living() for _ in range(100)]
        told = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(error) for error in told} == {StoreUnavailable}
    assert awake() - began < 5
    began = awake()
    with pytest.raises(StoreUnavailable):  # at once: nobody waits for what just did not answer
        await store.sessions.living()
    assert awake() - began < 1.5
    own_postgres.thaw()
    await answers(store)
    began = awake()
    found = await asyncio.gather(*(store.sessions.living() for _ in range(8)))
    assert found == [[]] * 8
    assert awake() - began < 2


async def test_threads_do_not_wait_for_a_server_that_is_gone(
    own_postgres: PostgreSQL, make_store: Make
) -> None:
    def threads() -> int:
        names = [one.name for one in threading.enumerate()]
        return sum(name.startswith("portal-database") for name in names)

    before = threads()
    store = make_store(own_postgres.new())
    await store.upgrade()
    await asyncio.gather(*(store.sessions.living() for _ in range(8)))
    store.database.seconds = 1
    own_postgres.freeze()
    asked = [store.sessions.living() for _ in range(4)]
    await asyncio.gather(*asked, return_exceptions=True)
    await store.close()  # threads without work end; one that still waits would not
    end = time.monotonic() + patience(60)
    while threads() > before:
        assert time.monotonic() < end
        await asyncio.sleep(0.1)


async def test_a_statement_that_takes_too_long_is_ended_on_the_server(
    postgres: PostgreSQL, make_store: Make
) -> None:
    store = make_store(postgres.new(), timeout=1)
    await store.upgrade()
    with pytest.raises(StoreUnavailable):
        await store.database.run(lambda to: to.exec_driver_sql("SELECT pg_sleep(30)"))
    end = time.monotonic() + 25
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' " + (
        "AND state = 'active' AND pid <> pg_backend_pid()"
    )
    while postgres.sql(sleeping) != "(0,)":
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    await answers(store)


async def test_what_was_given_up_is_not_written_later(url: str, make_store: Make) -> None:
    """Who was told that it failed writes it again: it must not be there twice."""
    store = make_store(url, timeout=1)
    await store.upgrade()

    def slowly(to: Any) -> None:
        to.exec_driver_sql(
            "INSERT INTO session_reports (session_id, reports, gpu_seconds, busy_seconds, last_at) "
            "VALUES ('s', 1, 1, 1, 1)"
        )
        given_up.wait(60)

    given_up = threading.Event()
    with pytest.raises(StoreUnavailable):
        await store.database.run(slowly, write=True)
    given_up.set()
    await asyncio.sleep(1)
    await answers(store)
    assert await store.reports.of_sessions(["s"]) == {}


async def test_wrong_password_and_wrong_names(
    postgres: PostgreSQL,
    make_store: Make,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = postgres.new()
    secret = "wr0ng-secret"
    cases = {
        postgres.url(good.rpartition("/")[2], secret): "does not accept the portal's login",
        postgres.url("nowhere"): "does not exist on its server",
        good.replace("://portal:", "://stranger:"): "does not accept the portal's login",
        f"postgresql://portal:{secret}@127.0.0.1:1/x": "does not answer",
    }
    for url, words in cases.items():
        store = make_store(url)
        with pytest.raises(StoreUnavailable, match=words) as caught:
            await store.upgrade()
        for text in (caught.value.message, store.detail, store.place, caplog.text):
            assert secret not in text
            assert PASSWORD not in text
    file = tmp_path / "password"
    store = make_store(good.replace(good.split("@")[0], "postgresql://portal"),
                       password_file=str(file))  # fmt: skip
    with pytest.raises(ConfigurationError, match=rf"cannot be read from {file}: No such file"):
        await store.upgrade()
    file.write_text(f"{PASSWORD}\n")  # it is read at each connection
    await store.upgrade()
    await answers(store)


def test_a_password_in_a_drivers_words_is_not_told() -> None:
    url = make_url("postgresql://portal:hunter2%40@h/x")
    said = "connection\n to host=h password=other user=portal failed for hunter2@"
    assert without_secrets(said, url) == (
        "connection to host=h password=*** user=portal failed for ***"
    )


# -- SQLite --------------------------------------------------------------------------------------


async def test_sqlite_locked_by_another_process(sqlite_url: str, make_store: Make) -> None:
    store = make_store(sqlite_url, timeout=20)
    await store.upgrade()
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with loop_stays_free():
        with pytest.raises(StoreUnavailable, match="is locked by another process"):
            await store.history.add_samples(ClusterSample(at=1000))
        assert await store.sessions.living() == []  # readers need not wait for a writer
    other.execute("COMMIT")
    other.close()
    await store.history.add_samples(ClusterSample(at=1000))
    assert store.error == ""


async def with_session(sqlite_url: str, make_store: Make) -> tuple[Path, Store]:
    """A database of one session, and its file."""
    store = make_store(sqlite_url)
    await store.upgrade()
    await store.sessions.save(recorded(id="a", user="ada", submitted_at=1))
    return Path(sqlite_url.removeprefix("sqlite:///")), store


@pytest.mark.parametrize("rubbish", [b"not a database at all\n" * 500, b"\0" * 4096])
async def test_a_file_of_another_kind_is_left_alone(
    sqlite_url: str, make_store: Make, rubbish: bytes
) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.write_bytes(rubbish)
    store = make_store(sqlite_url)
    for ask in (store.upgrade, store.sessions.living):
        with pytest.raises(StoreUnavailable, match="is damaged, or its file is not a database"):
            await ask()
    assert path.read_bytes() == rubbish


async def test_a_file_that_is_damaged_while_the_portal_runs(
    sqlite_url: str, make_store: Make
) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    first = make_store(sqlite_url)
    await first.upgrade()
    for number in range(50):
        record = recorded(id=str(number), user="ada", submitted_at=1, log="x" * 4000)
        await first.sessions.save(record)
    await first.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 8192))
    store = make_store(sqlite_url)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        await store.sessions.find(text="ada")


async def test_a_file_that_may_not_be_read(sqlite_url: str, make_store: Make) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    await make_store(sqlite_url).upgrade()
    path.chmod(0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        store = make_store(sqlite_url)
        with pytest.raises(StoreUnavailable, match="cannot be opened: its file is missing or not"):
            await store.sessions.living()
        with pytest.raises(StoreUnavailable, match=r"cannot be created or upgraded: .*denied"):
            await store.upgrade()
        with pytest.raises(StoreUnavailable):
            await store.revision()
    finally:
        if os.geteuid() == 65534:
            os.seteuid(0)
        path.chmod(0o600)
    assert await store.sessions.living() == []


async def test_a_folder_that_is_not_there(tmp_path: Path, make_store: Make) -> None:
    store = make_store(f"sqlite:///{tmp_path}/none/portal.sqlite")
    with pytest.raises(StoreUnavailable, match=r"cannot be created .*No such file.*c\.Store\.url"):
        await store.upgrade()
    (tmp_path / "none").mkdir()
    assert await store.sessions.living() == []  # made by the first question, as it was asked for


async def test_a_file_that_was_taken_away_is_not_made_anew(
    sqlite_url: str, make_store: Make
) -> None:
    """Its file system was unmounted: an empty database would hide the real one."""
    path, store = await with_session(sqlite_url, make_store)
    await make_store(sqlite_url).close()
    away = path.with_name("away")
    path.rename(away)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="its file is missing"):
            await store.sessions.living()
    assert not path.exists()
    away.rename(path)
    assert [one.id for one in await store.sessions.living()] == ["a"]


async def test_a_copy_that_was_put_back_is_seen(sqlite_url: str, make_store: Make) -> None:
    path, store = await with_session(sqlite_url, make_store)
    copy = path.with_name("copy")
    source, target = sqlite3.connect(path), sqlite3.connect(copy)
    source.backup(target)
    source.close()
    target.close()
    await store.sessions.save(recorded(id="b", user="ada", submitted_at=2))
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    copy.replace(path)
    assert [one.id for one in await store.sessions.living()] == ["a"]


# -- both ----------------------------------------------------------------------------------------

GPU_TIME = JobUsage(job_id="1", submitted_at=1, day="2026-11-21", user="ada", held=60)
WRITER = """
import asyncio, sys
from portal.models.session.session import SessionRecord
from portal.store import Store
async def main():
    store = Store(url=sys.argv[1])
    await store.upgrade()
    for number in range(150):
        await store.sessions.save(SessionRecord(id=str(number), user="ada", submitted_at=number))
    await store.close()
asyncio.run(main())
"""


async def test_two_processes_write_at_the_same_time(url: str, make_store: Make) -> None:
    """The Hub writes sessions, the service the rest."""
    store = make_store(url)
    await store.upgrade()
    hub = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    said = asyncio.ensure_future(hub.communicate())
    for number in range(40):
        await asyncio.gather(
            *(store.history.add_samples(ClusterSample(at=60 * (4 * number + i))) for i in range(4)),
            store.sessions.find(text="ada"),
            store.usage.add_seconds([GPU_TIME.model_copy(update={"job_id": f"{number}"})]),
        )
    _, errors = await said
    assert hub.returncode == 0, errors.decode()
    assert (await store.sessions.find())[1] == 150
    points = await store.history.points(0, 160 * 60, 200)
    assert len([one for one in points if one.gpus_total is not None]) == 160


async def test_after_closing_it_says_so(url: str, make_store: Make) -> None:
    store = make_store(url)
    await store.upgrade()
    await store.close()
    with pytest.raises(StoreUnavailable, match="is stopping"):
        await store.sessions.living()
    await store.check()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "is not a database URL"),
        ("portal.sqlite", "is not a database URL"),
        ("mysql://root:hunter2@h/x", "type 'mysql'"),
        ("postgresql+asyncpg://u:hunter2@h/x", "type 'postgresql\\+asyncpg'"),
        ("postgresql://u:hunter2@h:port/x", "is not a database URL"),
        ("sqlite://", "must name a regular file"),
        ("sqlite:///:memory:", "must name a regular file"),
        ("sqlite:///x.db?mode=ro", "must name a regular file"),
    ],
)
def test_wrong_addresses(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        Store(url=url)
    assert "hunter2" not in caught.value.message
