"""Runs: the order of their points, batches of reports, and what is said at their end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from followed_run import KEY, LOG, FollowedRun, a_run

from portal.errors import StoreUnavailable
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.run import PointState, RunPoint
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.run import follower
from portal.work.run.endings import ended_point
from portal.work.run.reports import RunReports, newest
from portal.work.run.results.order import SORTS, point_numbers
from portal.work.run.tables.points import PointKeys, RunPointTable
from portal.work.run.tables.runs import RunTable


def keys(number: int, state: str = "running", **more: Any) -> PointKeys:
    values = {
        "cell": None,
        "metrics": {},
        "parameters": {},
        "started_at": None,
        "ended_at": None,
        **more,
    }
    return PointKeys(number=number, state=PointState(state), **values)


KEYS = (
    keys(
        1,
        "succeeded",
        started_at=10.0,
        ended_at=30.0,
        metrics={"loss": 0.5},
        parameters={"loss": 3},
    ),
    keys(
        3,
        "failed",
        started_at=5.0,
        ended_at=95.0,
        cell=2,
        metrics={"loss": 0.1},
        parameters={"loss": "3"},
    ),
    keys(4, "running", started_at=7.0, cell=9, parameters={"loss": False}),
)


@pytest.mark.parametrize(
    ("sort", "numbers"),
    [
        ("number", [0, 1, 2, 3, 4]),
        ("-number", [4, 3, 2, 1, 0]),
        ("state", [0, 2, 4, 1, 3]),
        ("-cell", [4, 3, 0, 1, 2]),
        ("started_at", [3, 4, 1, 0, 2]),
        ("-ended_at", [3, 1, 0, 2, 4]),
        ("seconds", [1, 3, 0, 2, 4]),
        ("metric", [3, 1, 0, 2, 4]),
        ("-metric", [1, 3, 0, 2, 4]),
        ("parameter", [4, 1, 3, 0, 2]),
        ("-parameter", [3, 1, 4, 0, 2]),
    ],
)
def test_points_without_a_value_stand_last(sort: str, numbers: list[int]) -> None:
    assert sort.removeprefix("-") in SORTS
    assert point_numbers(5, KEYS, None, sort, "loss") == numbers


def test_points_of_a_state() -> None:
    assert point_numbers(5, KEYS, PointState.WAITING, "-number") == [2, 0]
    assert point_numbers(5, KEYS, PointState.FAILED, "number") == [3]
    assert point_numbers(5, KEYS, PointState.LOST, "number") == []


# -- reports ---------------------------------------------------------------------------------------


async def test_a_batch_has_each_point_once() -> None:
    def report(state: str, attempt: int = 1, **more: Any) -> Any:
        values = {"number": 0, "state": PointState(state), "attempt": attempt, **more}
        return KEY, RunPoint(**values), asyncio.get_running_loop().create_future()

    first, later = report("running", started_at=1.0), report("running", cell=2, started_at=5.0)
    ((_, point),) = newest([first, later])
    assert (point.cell, point.started_at) == (2, 1.0)
    ((_, point),) = newest([report("failed"), report("running"), report("succeeded")])
    assert point.state is PointState.FAILED
    ((_, point),) = newest([report("failed"), report("running", 2), report("failed", 1)])
    assert (point.state, point.attempt) == (PointState.RUNNING, 2)


async def test_reports_wait_until_they_are_stored(store: Store) -> None:
    reports, sizes = RunReports(store, LOG), []
    save = store.table(RunPointTable).save

    async def slow(points: Any) -> None:
        sizes.append(len(points))
        await asyncio.sleep(0.01)
        await save(points)

    store.table(RunPointTable).save = slow  # type: ignore[method-assign]
    run = a_run(points=50)
    await asyncio.gather(*(reports.take(run, RunPoint(number=n, attempt=1)) for n in range(50)))
    assert len(await store.table(RunPointTable).keys(*KEY)) == 50
    assert sizes[0] + sum(sizes[1:]) == 50 and len(sizes) <= 2


async def test_reports_that_are_not_stored_fail(store: Store) -> None:
    reports = RunReports(store, LOG)

    async def away(points: Any) -> None:
        raise StoreUnavailable("The database does not answer.")

    save, store.table(RunPointTable).save = store.table(RunPointTable).save, away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await reports.take(a_run(), RunPoint(number=0))
    store.table(RunPointTable).save = save  # type: ignore[method-assign]
    await reports.take(a_run(), RunPoint(number=0))


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "state", "message"),
    [
        (None, "lost", "The run has ended, and this point did not report its outcome."),
        ({"state": "COMPLETED"}, "succeeded", ""),
        (
            {"state": "TIMEOUT", "time_limit": 3600},
            "failed",
            "The point reached its time limit of 1 h.",
        ),
        (
            {"state": "OUT_OF_MEMORY", "memory": 100, "peak_memory": 812},
            "failed",
            "The point used more memory than requested. Requested: 100 MB. Peak: 812 MB.",
        ),
        ({"state": "NODE_FAIL"}, "failed", "The node failed on gpu01."),
        ({"state": "CANCELLED"}, "failed", "The point was cancelled."),
        (
            {"state": "CANCELLED", "nodes": (), "reason": "CancelledBy:grace"},
            "failed",
            "The point was cancelled by grace before it started.",
        ),
        (
            {"state": "CANCELLED", "start_time": 8.0, "reason": "CancelledBy:root"},
            "failed",
            "gpu01 refused job 12_1: it had just ended a job with the same number, which Slurm had "
            "lost. Run the point again.",
        ),
        (
            {"state": "FAILED", "exit_signal": 9},
            "failed",
            "The point was killed by signal 9 on gpu01.",
        ),
        ({"state": "FAILED", "exit_code": 3}, "failed", "The point exited with code 3 on gpu01."),
        (
            {"state": "FAILED", "exit_code": 85},
            "failed",
            "The point was saved at its time limit, and Slurm did not start its job again. Its "
            "checkpoint is in the run's folder: run the point again.",
        ),
    ],
)
def test_slurm_says_how_a_point_ended(job: Any, state: str, message: str) -> None:
    facts = {"id": "12_1", "nodes": ("gpu01",), "start_time": 5.0, "end_time": 9.0}
    known = None if job is None else Job(**{**facts, **job})
    point = ended_point(RunPoint(number=1, cell=2, cells=9, attempt=1), known, 50.0)
    assert (str(point.state), point.message) == (state, message)
    assert (point.cell, point.attempt) == (2, 1)
    assert point.ended_at == (50.0 if job is None else 9.0)
    assert point.job == ("" if job is None else "12_1")


@pytest.fixture
async def site(store: Store) -> FollowedRun:
    await store.table(RunTable).add_run(a_run())
    return FollowedRun(store)


def done(number: int, state: str = "COMPLETED") -> Job:
    return Job(id=f"12_{number}", state=JobState(state), nodes=("gpu01",))


async def test_a_living_run_gets_its_job(site: FollowedRun) -> None:
    await site.follower.follow_runs()
    assert (await site.run()).job_id == ""
    site.sessions["12_1"] = await site.session()
    await site.follower.follow_runs()
    run = await site.run()
    assert (run.job_id, run.ended_at, site.slurm.asked) == ("12", None, 0)


async def test_points_that_said_nothing_get_an_end(site: FollowedRun) -> None:
    for number, state in ((0, "succeeded"), (1, "running")):
        point = RunPoint(number=number, state=PointState(state), attempt=1, cell=5)
        await site.reports.take(a_run(), point)
    await site.session(state=SessionState.ENDED, ended_at=99.0)
    site.slurm.tasks = {1: done(1, "TIMEOUT"), 2: done(2), 3: done(3, "CANCELLED")}
    await site.follower.follow_runs()
    assert await site.states() == {0: "succeeded", 1: "failed", 2: "succeeded", 3: "failed"}
    points = await site.store.table(RunPointTable).of_run(*KEY, [1])
    assert points[1].message == "The point reached its time limit." and points[1].cell == 5
    assert (await site.run()).ended_at == 99.0
    await site.follower.follow_runs()
    assert site.slurm.asked == 1


async def test_accounting_is_given_time(site: FollowedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_LOOKS", 3)
    await site.reports.take(a_run(), RunPoint(number=1, state=PointState.RUNNING, attempt=1))
    await site.session(state=SessionState.ENDED, ended_at=99.0)
    site.slurm.tasks = None
    await site.follower.follow_runs()
    site.slurm.tasks = {0: done(0)}
    await site.follower.follow_runs()
    assert (await site.run()).ended_at is None and await site.states() == {1: "running"}
    await site.follower.follow_runs()
    assert (await site.run()).ended_at == 99.0
    # Slurm forgets tasks that are cancelled while they wait (seen on 22.05).
    assert await site.states() == {0: "succeeded", 1: "lost", 2: "failed", 3: "failed"}
    points = await site.points()
    assert points[2].message == "The point was cancelled before it started."
    assert [points[number].missing for number in range(4)] == [True, True, False, False]


async def test_one_whose_points_all_said_it_needs_no_query(site: FollowedRun) -> None:
    for number in range(4):
        point = RunPoint(number=number, state=PointState.SUCCEEDED, attempt=1)
        await site.reports.take(a_run(), point)
    await site.session(state=SessionState.ENDED, ended_at=99.0)
    await site.follower.follow_runs()
    assert (await site.run()).ended_at == 99.0 and site.slurm.asked == 0


async def test_a_session_of_another_run_is_not_its_own(site: FollowedRun) -> None:
    other = {"run": {"id": "5e2f3c1a-ffff"}}
    site.sessions["9_1"] = await site.session(
        state=SessionState.ENDED, ended_at=9.0, options=other, job_id="9"
    )
    await site.follower.follow_runs()
    run = await site.run()
    assert (run.job_id, run.ended_at) == ("", None)


async def test_one_that_never_started_ends(
    site: FollowedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.follower.follow_runs()
    assert (await site.run()).ended_at is None
    monkeypatch.setattr(follower, "_UNSTARTED", -1.0)
    await site.follower.follow_runs()
    assert (await site.run()).ended_at is not None
