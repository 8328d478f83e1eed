"""Runs that run again: only what has not succeeded, once, and repetitions with names of their
own."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from fake_hub import FakeHub
from session_records import recorded

from portal.errors import Conflict, HubUnavailable, NotAllowed
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.run.follower import RunFollower
from portal.work.run.launches.again import RunsAgain
from portal.work.run.launches.repeats import free_name, repeat
from portal.work.run.living import LivingRuns
from portal.work.run.reports import RunReports
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.reopenings import RunReopenings
from portal.work.run.tables.runs import RunTable

KEY = ("ada", "5e2f3c1a")
LOG = logging.getLogger("portal-test")


def a_run(**more: Any) -> Run:
    values = {
        "id": KEY[1],
        "name": "rates",
        "source": "train.py",
        "folder": "/home/ada/projects/runs/rates",
        "points": 6,
        "user": KEY[0],
        "server": "run-5e2f3c1a",
        "environment": "lab",
        "resources": {"gpus": 1, "time": 3600},
        "created_at": time.time(),
    }
    return Run(**{**values, **more})


class Site:
    """A run that has ended: point 0 succeeded, 1 failed, 2 is lost, 3 succeeded at its second
    attempt, and the others never began."""

    def __init__(self, store: Store) -> None:
        self.store, self.hub = store, FakeHub()
        self.reports = RunReports(store, LOG)
        self.again = RunsAgain(store, self.reports, self.hub)

    async def prepare(self) -> None:
        await self.store.table(RunTable).add_run(a_run())
        states = ((0, "succeeded", 1), (1, "failed", 1), (2, "lost", 0), (3, "succeeded", 2))
        points = [
            RunPoint(number=n, state=PointState(state), attempt=attempt, message=f"Was {state}.")
            for n, state, attempt in states
        ]
        await self.store.table(RunPointTable).save([(KEY, point) for point in points])
        await self.store.table(RunTable).end(*KEY, 99.0)

    async def run(self) -> Run:
        run = await self.store.table(RunTable).get(*KEY)
        assert run is not None
        return run

    async def points(self) -> dict[int, RunPoint]:
        return await self.store.table(RunPointTable).of_run(*KEY, range(6))


@pytest.fixture
async def site(store: Store) -> Site:
    site = Site(store)
    await site.prepare()
    return site


async def test_only_what_did_not_succeed_runs_again(site: Site) -> None:
    before = await site.points()
    again = await site.again.start(await site.run(), {"time": 7200})
    ((*_, options),) = site.hub.asked
    assert options["run"]["only"] == "1-2,4-5" and options["run"]["attempt"] == 2
    assert (options["time"], options["gpus"], again.tasks) == (7200, 1, 4)
    run = await site.run()
    assert run == again and (run.ended_at, run.job_id) == (None, "") and run.again_at
    points = await site.points()
    assert {n: str(point.state) for n, point in points.items()} == {
        0: "succeeded", 1: "waiting", 2: "waiting", 3: "succeeded",
    }  # fmt: skip
    assert points[0] == before[0] and points[1].message == ""
    # A report of the earlier attempt changes nothing, one of the new attempt does.
    for attempt, state in ((1, "waiting"), (3, "running")):
        report = RunPoint(number=1, state=PointState.RUNNING, attempt=attempt)
        await site.reports.take(run, report)
        assert str((await site.points())[1].state) == state


async def test_of_two_at_the_same_moment_one_is_refused(site: Site) -> None:
    run = await site.run()
    results = await asyncio.gather(
        *(site.again.start(run, {}) for _ in range(5)), return_exceptions=True
    )
    assert len(site.hub.asked) == 1
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 4 + ["Run"]
    with pytest.raises(Conflict, match="has not ended"):
        await site.again.start(await site.run(), {})
    await site.store.table(RunTable).end(*KEY, 120.0)
    with pytest.raises(Conflict, match="already been started again"):  # an old page
        await site.again.start(run, {})
    assert len(site.hub.asked) == 1


async def test_after_a_refusal_all_is_as_before(site: Site) -> None:
    run, points = await site.run(), await site.points()
    unsure = HubUnavailable("The Hub does not answer.")
    for refusal in (NotAllowed("You have 20 runs."), unsure):
        site.hub.refusal = refusal
        with pytest.raises(type(refusal), match=refusal.message):
            await site.again.start(run, {"time": 7200})
        assert await site.run() == run and await site.points() == points
    site.hub.refusal = None
    await site.again.start(run, {})


@pytest.mark.parametrize("state", ["starting", "ready", None])
async def test_a_launch_that_may_have_happened_is_not_repeated(site: Site, state: Any) -> None:
    run = await site.run()
    away = HubUnavailable("The Hub does not answer.")
    site.hub.refusal, site.hub.trouble = away, None if state else away
    site.hub.running = {("ada", run.server): state}
    with pytest.raises(HubUnavailable, match="not known yet"):
        await site.again.start(run, {})
    with pytest.raises(Conflict):
        await site.again.start(await site.run(), {})
    assert len(site.hub.asked) == 1


async def test_a_point_that_has_begun_is_not_taken_back(site: Site) -> None:
    reopened = await site.store.table(RunReopenings).reopen(await site.run(), {})
    running = RunPoint(number=4, state=PointState.RUNNING, attempt=reopened.run.attempt + 1)
    await site.store.table(RunPointTable).save([(KEY, running)])
    assert not await site.store.table(RunReopenings).take_back(reopened)
    assert (await site.run()).ended_at is None


async def test_one_whose_points_all_succeeded(site: Site) -> None:
    points = [RunPoint(number=n, state=PointState.SUCCEEDED, attempt=9) for n in range(6)]
    await site.store.table(RunPointTable).save([(KEY, point) for point in points])
    with pytest.raises(Conflict, match="All points of this run have succeeded"):
        await site.again.start(await site.run(), {})
    assert site.hub.asked == [] and (await site.run()).ended_at == 99.0


def test_a_repetition_is_a_run_of_its_own() -> None:
    kept = {"version": 3, "at_once": 4, "resumes": 5, "keep_failed": True}
    original = a_run(resources={"gpus": 1, "account": "physics"}, **kept)
    run = repeat("ada", original, "rates-2")
    assert run.id != original.id and run.server.startswith("run-")
    assert (run.folder, run.points) == ("/home/ada/projects/runs/rates-2", 6)
    assert (run.version, run.at_once, run.only, run.attempt) == (3, 4, "", 0)
    assert (run.resumes, run.keep_failed) == (5, True)
    assert run.resources == original.resources
    assert run.origin is not None
    assert run.origin.model_dump() == {"id": KEY[1], "user": "ada", "folder": original.folder}
    other = repeat("barbara", original, "rates-2")
    assert (other.user, other.folder) == ("barbara", "~/runs/rates-2")
    assert other.resources == {"gpus": 1}, "another user has other accounts"
    with pytest.raises(Conflict, match="would be too long"):
        repeat("ada", a_run(folder=f"/{'x' * 990}/b"), "rates-2026-11-26")


def test_names_count_on() -> None:
    original = a_run(name="lr-18")
    assert free_name(original, ()) == "lr-18-2"
    assert free_name(original, {"lr-18-2", "lr-18-3"}) == "lr-18-4"
    repetition = repeat("ada", original, "lr-18-2")
    assert free_name(repetition, {"lr-18", "lr-18-2"}) == "lr-18-3"
    assert free_name(a_run(name="a" * 60), ()) == "a" * 58 + "-2"


def followed(site: Site, slurm: Any) -> RunFollower:
    living = LivingRuns(site.store, slurm, slurm, slurm, LOG)
    return RunFollower(site.store, slurm, site.reports, lambda: None, LOG, living)


async def test_the_session_before_does_not_end_it(site: Site) -> None:
    async def ended_tasks(job_id: str) -> dict[int, Any]:
        assert job_id == "13"
        return {1: Job(id="13_1", state=JobState.COMPLETED, nodes=("gpu01",))}

    follower = followed(site, SimpleNamespace(ended_tasks=ended_tasks))

    async def session(job_id: str, **asked: Any) -> None:
        values = {"user": "ada", "server": "run-5e2f3c1a", "state": SessionState.ENDED}
        record = recorded(
            id=job_id, job_id=job_id, submitted_at=float(job_id), ended_at=130.0,
            options={"run": {"id": KEY[1], **asked}}, **values,
        )  # fmt: skip
        await site.store.sessions.save(record)

    await session("12")
    done = [RunPoint(number=n, state=PointState.SUCCEEDED, attempt=1) for n in (2, 4, 5)]
    await site.store.table(RunPointTable).save([(KEY, point) for point in done])
    again = await site.again.start(await site.run(), {})
    assert again.only == "1"
    await follower.follow_runs()
    assert (await site.run()).ended_at is None, "that was the launch before"
    await session("13", attempt=again.attempt, only="1")
    await follower.follow_runs()
    run = await site.run()
    assert (run.ended_at, run.job_id) == (130.0, "13")
    point = (await site.points())[1]
    assert (str(point.state), point.message, point.job) == ("succeeded", "", "13_1")


async def test_the_hub_knows_the_home(site: Site) -> None:
    new = repeat("barbara", await site.run(), "rates-2")
    await site.store.table(RunTable).add_run(new)
    record = recorded(
        id="S", user="barbara", server=new.server, job_id="14", submitted_at=5.0,
        state=SessionState.RUNNING,
        options={"run": {"id": new.id, "folder": "/home/barbara/runs/rates-2"}},
    )  # fmt: skip
    await site.store.sessions.save(record)
    slurm: Any = SimpleNamespace()
    await followed(site, slurm).follow_runs()
    found = await site.store.table(RunTable).get("barbara", new.id)
    assert found is not None and found.folder == "/home/barbara/runs/rates-2"


async def test_a_late_report_does_not_keep_the_end(site: Site) -> None:
    late = await site.reports.on_server("ada", "run-5e2f3c1a")
    assert late is not None and late.ended_at == 99.0
    # Whatever was read before, the tasks of the next launch find it open.
    await site.store.table(RunReopenings).reopen(late, {})
    run = await site.reports.on_server("ada", "run-5e2f3c1a")
    assert run is not None and run.ended_at is None and run.attempt == 2
