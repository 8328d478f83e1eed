"""Runs that start after others: what they wait for, and why they could not start."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from fake_hub import FakeHub
from session_records import recorded

from portal.errors import Conflict, NotFound, PortalError
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.run import PointState, Run, RunEvent, RunPoint
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.run import follower
from portal.work.run.follower import RunFollower
from portal.work.run.launches.again import RunsAgain
from portal.work.run.launches.chains import never_started
from portal.work.run.launches.starts import RunStarts
from portal.work.run.living import LivingRuns
from portal.work.run.reports import RunReports
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

FIRST, SECOND, THIRD = "11111111", "22222222", "33333333"
LOG = logging.getLogger("portal-test")


def a_run(id_: str, after: str = "", **more: Any) -> Run:
    values = {
        "name": {FIRST: "first", SECOND: "second", THIRD: "third"}[id_],
        "source": "train.py",
        "folder": f"/home/ada/runs/{id_}",
        "points": 3,
        "user": "ada",
        "server": f"run-{id_}",
        "environment": "lab",
        "created_at": time.time(),
    }
    return Run(**{**values, "id": id_, "after": after, **more})


class Accounting:
    """Slurm's accounting: every task of a run without an end was cancelled."""

    async def ended_tasks(self, job_id: str) -> dict[int, Job]:
        state = JobState.CANCELLED
        return {number: Job(id=f"{job_id}_{number}", state=state) for number in range(3)}


class Site:
    """Starts of runs and their ends."""

    def __init__(self, store: Store) -> None:
        self.store, self.hub = store, FakeHub()
        self.reports = RunReports(store, LOG)
        self.starts = RunStarts(self.reports, self.hub, store)
        view = SimpleNamespace(sessions={}, snapshot=None)
        cluster: Any = Accounting()
        self.again = RunsAgain(store, self.reports, self.hub)
        living = LivingRuns(store, cluster, cluster, cluster, LOG)
        self.follower = RunFollower(store, cluster, self.reports, lambda: view, LOG, living)

    @property
    def begun(self) -> list[dict[str, Any]]:
        return [options["run"] for *_, options in self.hub.begun]

    async def end_points(self, id_: str, *states: str) -> None:
        for number, state in enumerate(states):
            point = RunPoint(number=number, state=PointState(state), attempt=1)
            await self.reports.take(a_run(id_), point)

    async def end_session(self, id_: str, **more: Any) -> None:
        values = {
            "id": id_,
            "user": "ada",
            "server": f"run-{id_}",
            "job_id": id_[:2],
            "state": SessionState.ENDED,
            "submitted_at": time.time(),
            "ended_at": 99.0,
            "ending_code": "cancelled",
            "options": {"run": {"id": id_}},
        }
        await self.store.sessions.save(recorded(**{**values, **more}))

    async def run(self, id_: str) -> Run:
        run = await self.store.table(RunTable).get("ada", id_)
        assert run is not None
        return run


@pytest.fixture
async def site(store: Store) -> Site:
    site = Site(store)
    await site.starts.begin(a_run(FIRST))
    return site


# -- starts ----------------------------------------------------------------------------------------


async def test_it_waits_for_a_run_that_has_not_ended(site: Site) -> None:
    await site.starts.begin(a_run(SECOND, FIRST))
    assert "after" not in site.begun[0] and site.begun[1]["after"] == FIRST
    assert (await site.run(SECOND)).after == FIRST


async def test_it_waits_for_nothing_once_all_points_have_succeeded(site: Site) -> None:
    await site.end_points(FIRST, "succeeded", "succeeded", "succeeded")
    await site.store.table(RunTable).end("ada", FIRST, 9.0)
    await site.starts.begin(a_run(SECOND, FIRST))
    assert "after" not in site.begun[1] and (await site.run(SECOND)).after == FIRST


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (a_run(SECOND, FIRST), Conflict, "after 'first': 2 points did not succeed. Run the"),
        (a_run(SECOND, SECOND), Conflict, "cannot start after itself"),
        (a_run(SECOND, THIRD), NotFound, "You have no run with the id '33333333'"),
        (a_run(SECOND, FIRST, course="ml"), NotFound, "You have no run with the id '11111111'"),
        (a_run(SECOND, FIRST, user="barbara"), NotFound, "You have no run with the id '11111111'"),
    ],
)
async def test_what_it_cannot_start_after(
    site: Site, run: Run, error: type[PortalError], words: str
) -> None:
    await site.end_points(FIRST, "succeeded", "failed", "lost")
    await site.store.table(RunTable).end("ada", FIRST, 9.0)
    with pytest.raises(error, match=words) as refused:
        await site.starts.begin(run)
    assert refused.value.field == "after"
    assert len(site.begun) == 1 and await site.store.table(RunTable).get(run.user, run.id) is None


# -- ends ------------------------------------------------------------------------------------------


async def test_it_says_which_points_of_the_other_failed(site: Site) -> None:
    await site.starts.begin(a_run(SECOND, FIRST))
    await site.starts.begin(a_run(THIRD, SECOND))
    await site.end_points(FIRST, "failed", "succeeded", "failed")
    await site.end_session(THIRD)
    await site.end_session(SECOND)
    await site.follower.follow_runs()
    assert (await site.run(SECOND)).ended_at is None, "how the first one ended is not known yet"
    await site.end_session(FIRST)
    for _ in range(3):
        await site.follower.follow_runs()
    because = "The run did not start, because 2 points of 'first' failed."
    assert (await site.run(SECOND)).reason == because
    points = await site.store.table(RunPointTable).of_run("ada", SECOND, range(3))
    assert {point.message for point in points.values()} == {because}
    assert (
        await site.run(THIRD)
    ).reason == "The run did not start, because 'second' did not start."
    assert (await site.run(FIRST)).reason == ""


async def test_a_run_that_never_says_how_it_ended_holds_up_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_LOOKS", 2)
    await site.starts.begin(a_run(SECOND, FIRST))
    await site.end_session(SECOND)
    await site.follower.follow_runs()
    assert (await site.run(SECOND)).ended_at is None
    await site.follower.follow_runs()
    run = await site.run(SECOND)
    assert run.ended_at == 99.0 and run.reason == ""


@pytest.mark.parametrize(
    "session", [{"ending_code": "stopped", "stopped_by": "ada"}, {"started_at": 50.0}], ids=str
)
async def test_other_ends_are_not_the_other_run_s(site: Site, session: Any) -> None:
    await site.starts.begin(a_run(SECOND, FIRST))
    await site.end_points(FIRST, "failed")
    await site.end_session(SECOND, **session)
    await site.follower.follow_runs()
    run = await site.run(SECOND)
    assert run.ended_at is not None and run.reason == ""
    points = await site.store.table(RunPointTable).of_run("ada", SECOND, range(3))
    assert {point.message for point in points.values()} == {
        "The point was cancelled before it started."
    }


async def test_a_run_that_did_not_start_is_run_again_once_the_other_has_succeeded(
    site: Site,
) -> None:
    await site.starts.begin(a_run(SECOND, FIRST), (RunEvent.END,))
    await site.end_points(FIRST, "failed", "succeeded", "succeeded")
    await site.end_session(FIRST)
    await site.end_session(SECOND)
    for _ in range(2):
        await site.follower.follow_runs()
    second = await site.run(SECOND)
    assert second.reason
    with pytest.raises(Conflict, match="1 point did not succeed"):
        await site.again.start(second, {})
    assert await site.run(SECOND) == second and len(site.begun) == 2
    await site.again.start(await site.run(FIRST), {})
    await site.again.start(second, {})
    assert site.begun[2]["only"] == "0" and site.begun[3]["after"] == FIRST
    (notice,) = await site.store.table(RunNoticeTable).open()
    assert notice.run.id == SECOND, "it is told again"
    await site.end_session(SECOND, job_id="99")
    await site.end_points(FIRST, "failed")
    assert never_started(await site.run(SECOND), await record(site, SECOND), [PointState.WAITING])


async def record(site: Site, id_: str) -> SessionRecord:
    records, _ = await site.store.sessions.find(user="ada", server=f"run-{id_}", limit=1)
    return records[0]
