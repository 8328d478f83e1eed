"""What the Hub remembers of sessions, with a real database that comes and goes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from machine import patience
from machine_clock import awake
from session_records import recorded

from portal.errors import SlurmUnavailable, StoreUnavailable
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.ending import Ending
from portal.store import Store
from spawners.lifecycle import reconciler, session_recorder
from spawners.lifecycle.reconciler import Reconciler, ended
from spawners.lifecycle.session_recorder import Recorder
from spawners.lifecycle.stop_reason import reason


class Slurm:
    """Just enough of the watcher: ``jobs`` live, ``over`` have ended, ``silent``: no answer."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.over: dict[str, Job] = {}
        self.silent = False
        self.asked = 0

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        if self.silent:
            raise SlurmUnavailable("Slurm does not answer.")
        return ClusterSnapshot(taken_at=time.time(), jobs=self.jobs)

    async def ended_job(self, job_id: str) -> Job | None:
        self.asked += 1
        if self.silent:
            raise SlurmUnavailable("Slurm does not answer.")
        if job_id in self.jobs:
            return None
        return self.over.get(job_id) or Job(id=job_id, state=JobState.UNKNOWN)

    def position(self, job: Job, snapshot: ClusterSnapshot) -> int | None:
        return None


def session(session_id: str = "one", **more: Any) -> SessionRecord:
    return recorded(
        **{
            "id": session_id,
            "user": "ada",
            "account": "ada",
            "job_id": "7",
            "submitted_at": 100,
            "state": SessionState.RUNNING,
            "ready_at": 105,
            **more,
        }
    )


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setattr(reconciler, "_PAUSES", (0.01,) * 7)
    monkeypatch.setattr(session_recorder, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(session_recorder, "_LONGEST_PAUSE", 0.05)
    return Slurm()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "portal.sqlite"


Make = Callable[[], Recorder]


@pytest.fixture
async def make(path: Path, slurm: Slurm) -> AsyncIterator[Make]:
    """New Hubs on the same database, one after the other."""
    made: list[Recorder] = []

    def one() -> Recorder:
        log = logging.getLogger("test")
        store = Store(url=f"sqlite:///{path}", timeout=60)
        made.append(Recorder(store, Reconciler(slurm, log), log))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for recorder in made:
        await end(recorder)


async def end(recorder: Recorder) -> None:
    """As JupyterHub ends: all tasks are cancelled and waited for."""
    for task in recorder._tasks:
        task.cancel()
    if recorder._tasks:
        await asyncio.wait(recorder._tasks)


async def kept(path: Path, session_id: str = "one") -> SessionRecord | None:
    store = Store(url=f"sqlite:///{path}")
    try:
        return await store.sessions.get(session_id)
    except StoreUnavailable:  # not there yet
        return None
    finally:
        await store.close()


async def until(check: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + patience(120)
    while not (found := await check()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return found


async def comes(check: Callable[[], bool]) -> None:
    """What the recorder notes a moment after the database has it."""

    async def now() -> bool:
        return check()

    await until(now)


async def test_the_newest_is_kept(make: Make, path: Path) -> None:
    recorder = make()
    for state in (SessionState.PENDING, SessionState.STARTING, SessionState.RUNNING):
        recorder.note(session(state=state))
    assert not recorder.has("one")
    recorder.start()
    recorder.start()  # once is enough
    found = await until(lambda: kept(path))
    assert found.state is SessionState.RUNNING
    await comes(lambda: recorder.has("one"))


async def test_a_database_that_comes_later(make: Make, path: Path) -> None:
    path.mkdir()  # a folder in its place: it cannot be opened
    recorder = make()
    recorder.start()
    recorder.note(session())
    await asyncio.sleep(0.3)
    recorder.note(session(nodes=("gpu01",)))
    assert not recorder.has("one")
    path.rmdir()

    async def newest() -> bool:
        found = await kept(path)  # the one that was being tried may come first
        return found is not None and found.nodes == ("gpu01",)

    await until(newest)


async def test_a_lock_that_is_let_go(make: Make, path: Path) -> None:
    recorder = make()
    recorder.store.database.seconds = 1
    recorder.start()
    recorder.note(session())
    await until(lambda: kept(path))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = awake()
    recorder.note(session(state=SessionState.ENDED, ended_at=200))
    assert awake() - began < 0.1
    await asyncio.sleep(1.5)  # longer than the database waits
    holder.close()

    async def over() -> bool:
        found = await kept(path)
        return found is not None and found.state is SessionState.ENDED

    await until(over)


async def test_memory_is_bounded_and_the_newest_sessions_stay(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_recorder, "_MOST", 10)
    recorder = make()
    for number in range(30):
        recorder.note(session(f"s{number}"))
    assert len(recorder._waiting) == 10
    recorder.start()
    await until(lambda: kept(path, "s29"))
    assert await kept(path, "s20") is not None
    assert await kept(path, "s19") is None


async def test_one_record_that_cannot_be_saved_does_not_stop_the_others(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = make()
    save = recorder.store.sessions.save

    async def picky(*some: SessionRecord) -> None:
        if any(one.id == "bad" for one in some):
            raise ValueError("not this one")
        await save(*some)

    monkeypatch.setattr(recorder.store.sessions, "save", picky)
    recorder.start()
    for name in ("first", "bad", "good"):
        recorder.note(session(name))
    await until(lambda: kept(path, "good"))
    await comes(lambda: recorder._waiting == {})
    assert await kept(path, "first") is not None and await kept(path, "bad") is None


async def test_what_waits_is_saved_together(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = make()
    save, asked = recorder.store.sessions.save, []

    async def counted(*some: SessionRecord) -> None:
        asked.append(len(some))
        await save(*some)

    monkeypatch.setattr(recorder.store.sessions, "save", counted)
    monkeypatch.setattr(session_recorder, "_LAST_WORDS", 60)
    for number in range(120):
        recorder.note(session(f"s{number}"))
    recorder.start()
    await until(lambda: kept(path, "s119"))
    assert asked == [50, 50, 20]
    assert await kept(path, "s0") is not None


async def test_the_hubs_end_waits_a_moment_for_what_is_left(make: Make, path: Path) -> None:
    first = make()
    first.start()
    first.note(session())
    await until(lambda: kept(path))
    await asyncio.sleep(0.1)  # it waits for news now
    first.note(session(nodes=("gpu01",)))
    await end(first)  # before the task has had its turn
    assert (await kept(path)).nodes == ("gpu01",)  # type: ignore[union-attr]


async def test_a_database_that_hangs_does_not_hold_up_the_hubs_end(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_recorder, "_LAST_WORDS", 0.5)
    recorder = make()

    async def hang(one: SessionRecord) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(recorder.store.sessions, "save", hang)
    recorder.start()
    recorder.note(session())
    await asyncio.sleep(0.1)
    began = awake()
    await end(recorder)
    assert awake() - began < 2
    with pytest.raises(StoreUnavailable, match="stopping"):  # its threads are let go
        await recorder.store.sessions.get("one")


async def test_closed_when_slurm_says_that_it_is_over(make: Make, path: Path, slurm: Slurm) -> None:
    slurm.jobs["7"] = Job(id="7", user="ada", state=JobState.RUNNING, nodes=("gpu01",))
    recorder = make()
    recorder.start()
    recorder.note(session(stopped_by="grace"))
    recorder.close(session(stopped_by="grace"))
    await until(lambda: kept(path))
    await asyncio.sleep(0.2)
    assert (await kept(path)).state is SessionState.RUNNING  # type: ignore[union-attr]
    slurm.silent = True
    job = slurm.jobs.pop("7")
    await asyncio.sleep(0.2)
    assert (await kept(path)).state is SessionState.RUNNING  # type: ignore[union-attr]
    over = job.model_copy(update={"state": JobState.COMPLETED, "exit_code": 0, "end_time": 150.0})
    slurm.over["7"] = over
    slurm.silent = False

    async def is_over() -> SessionRecord | None:
        found = await kept(path)
        return found if found and found.state is SessionState.ENDED else None

    found = await until(is_over)
    assert (found.ending_code, found.stopped_by) == ("stopped", "grace")
    assert (found.ended_at, found.exit_code, found.peak_memory) == (150, 0, None)
    # Accounting tells more a moment later.
    slurm.over["7"] = over.model_copy(update={"peak_memory": 99})

    async def is_known() -> bool:
        found = await kept(path)
        return found is not None and found.peak_memory == 99

    recorder.close(found)
    await until(is_known)
    assert "one" not in recorder.closing


async def test_a_job_that_is_somebody_elses_tells_nothing(
    make: Make, path: Path, slurm: Slurm
) -> None:
    """Slurm lost its state and counts anew."""
    slurm.jobs["7"] = Job(id="7", user="barbara", state=JobState.RUNNING, nodes=("gpu01",))
    recorder = make()
    recorder.start()
    recorder.close(session())

    async def is_over() -> SessionRecord | None:
        found = await kept(path)
        return found if found and found.state is SessionState.ENDED else None

    found = await until(is_over)
    assert (found.ending_code, found.nodes) == ("unknown", ())


async def test_open_sessions_that_nobody_holds(make: Make, path: Path, slurm: Slurm) -> None:
    first = make()
    first.start()
    for number in ("held", "lost", "old"):
        first.note(session(number, job_id="8" if number == "held" else "9"))
    await until(lambda: kept(path, "old"))
    await end(first)
    slurm.over = {
        number: Job(
            id=number, user="ada", state=JobState.TIMEOUT, nodes=("n1",), peak_memory=5,
            time_limit=60, end_time=160,
        )
        for number in ("8", "9")
    }  # fmt: skip
    second = make()
    second.start(lambda: {"held"})

    async def both() -> bool:
        found = [await kept(path, one) for one in ("lost", "old")]
        return all(one and one.state is SessionState.ENDED for one in found)

    await until(both)
    assert (await kept(path, "lost")).ending_code == "walltime"  # type: ignore[union-attr]
    assert (await kept(path, "lost")).time_limit == 60  # type: ignore[union-attr]
    assert (await kept(path, "held")).state is SessionState.RUNNING  # type: ignore[union-attr]


async def test_old_sessions_are_forgotten_where_the_site_wants_it(make: Make, path: Path) -> None:
    now, day = time.time(), 86400.0
    ended = {"old": now - 31 * day, "new": now - 29 * day}
    for days in (0, 30):
        hub = make()
        hub.store.sessions_days = days
        await hub.store.upgrade()
        for number, at in ended.items():
            await hub.store.sessions.save(
                session(number, state=SessionState.ENDED, ended_at=at, submitted_at=at)
            )
        await hub._reconcile(lambda: ())
        assert await kept(path, "new") is not None
        assert (await kept(path, "old") is None) is (days == 30)
        await end(hub)


async def test_what_an_earlier_hub_could_not_write(make: Make, path: Path, slurm: Slurm) -> None:
    first = make()
    first.start()
    over = session("known", state=SessionState.ENDED, ending_code="walltime", ended_at=200)
    first.note(over)
    await until(lambda: kept(path, "known"))
    await end(first)
    slurm.over["9"] = Job(
        id="9", user="ada", state=JobState.COMPLETED, nodes=("n1",), exit_code=0, peak_memory=5
    )
    second = make()
    second.start(set)
    second.take_over(
        [
            session("known", ending_code=""),  # older than what the database has
            session("failed", state=SessionState.ENDED, ending_code="start_failed", job_id=""),
            session("open", job_id="9", stopped_by="ada"),
        ]
    )

    async def all_three() -> bool:
        found = [await kept(path, one) for one in ("failed", "open")]
        return all(one and one.state is SessionState.ENDED for one in found)

    await until(all_three)
    assert await kept(path, "known") == over
    assert (await kept(path, "failed")).ending_code == "start_failed"  # type: ignore[union-attr]
    assert (await kept(path, "open")).ending_code == "stopped"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("more", "job", "ending", "expected"),
    [
        # What the Hub saw itself is the reason, not the scancel that followed.
        (
            {"ending_code": "start_failed", "ending_message": "Did not answer.", "ready_at": None},
            {"state": JobState.CANCELLED},
            Ending(code="cancelled", message="x", by="ada", log="end"),
            ("start_failed", "Did not answer.", "", "end"),
        ),
        # A stop comes after what Slurm knows better.
        (
            {
                "ending_code": "stopped",
                "ending_message": "You stopped the session.",
                "stopped_by": "ada",
            },
            {"state": JobState.OUT_OF_MEMORY},
            Ending(code="out_of_memory", message="Too much.", log="end"),
            ("out_of_memory", "Too much.", "ada", "end"),
        ),
        (
            {},
            {"state": JobState.CANCELLED},
            Ending(code="cancelled", message="By root.", by="root"),
            ("cancelled", "By root.", "root", ""),
        ),
    ],
)
def test_the_reason_that_counts(
    more: dict[str, Any], job: dict[str, Any], ending: Ending, expected: tuple[str, ...]
) -> None:
    over = ended(session(**more), Job(id="7", user="ada", end_time=300, **job), ending)
    assert (over.ending_code, over.ending_message, over.stopped_by, over.log) == expected
    assert over.state is SessionState.ENDED
    assert over.ended_at == 300


@pytest.mark.parametrize(
    ("by", "ready", "answers", "came_back", "code", "words"),
    [
        ("ada", False, True, False, "stopped", "You stopped the session."),
        ("grace", True, True, False, "stopped", "An administrator (grace) stopped the session."),
        ("", False, True, False, "start_failed", "not become ready in time"),
        ("", True, False, False, "start_failed", "did not answer the Hub within 9 s"),
        ("", True, False, True, "failed", "After a restart of the Hub"),
        ("", True, True, False, "stopped", "stopped from the portal"),
    ],
)
def test_why_it_is_stopped(
    by: str, ready: bool, answers: bool, came_back: bool, code: str, words: str
) -> None:
    found = reason(by, "ada", ready=ready, answers=answers, came_back=came_back, http_timeout=9)
    assert found.code == code
    assert words in found.message
    assert found.by == by
