"""Runs that live, as Slurm has their tasks: cancelled, requeued, held, killed, and ghosts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from clusters import snapshot
from followed_run import KEY, FollowedRun, a_run

from portal.errors import HubUnavailable, NotFound
from portal.models.cluster.cluster import Job, JobState, Node
from portal.models.session.run import PointState, RunPoint
from portal.store import Store
from portal.work.run import living as living_module
from portal.work.run.tables.runs import RunTable

LONG_AGO = 100.0  # seconds


@pytest.fixture
async def site(store: Store) -> FollowedRun:
    await store.table(RunTable).add_run(a_run())
    return FollowedRun(store)


def a_task(numbers: str, state: str, **more: Any) -> Job:
    placed = {} if state in ("PENDING", "CANCELLED") else {"nodes": ("gpu01",), "start_time": 5.0}
    return Job(id=f"12_{numbers}", state=JobState(state), user="ada", **{**placed, **more})


async def living(site: FollowedRun, *tasks: Job, nodes: tuple[Node, ...] = (), **more: Any) -> None:
    """Look at the run once while Slurm has these tasks. ``more``: of its session."""
    record = await site.session(**more)
    site.sessions = {task.id: record for task in tasks}
    changes = {"taken_at": time.time(), "nodes": {node.name: node for node in nodes}}
    site.snapshot = snapshot(*tasks).model_copy(update=changes)
    await site.follower.follow_runs()


async def reported(
    site: FollowedRun, number: int, state: str, ago: float = LONG_AGO, **more: Any
) -> None:
    ended = {"ended_at": time.time() - ago} if state in ("succeeded", "failed") else {}
    values = {"attempt": 1, "started_at": time.time() - ago - 1, **ended, **more}
    await site.reports.take(a_run(), RunPoint(number=number, state=PointState(state), **values))


async def test_a_waiting_task_that_was_cancelled_fails_alone_and_at_once(
    site: FollowedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm then has it nowhere: neither in the queue nor in accounting."""
    monkeypatch.setattr(living_module, "_SOON", 0.0)
    tasks = a_task("0", "RUNNING"), a_task("[1,3%1]", "PENDING", reason="JobArrayTaskLimit")
    site.slurm.detailed = {0: tasks[0], 1: tasks[1], 3: tasks[1]}
    await reported(site, 0, "running")
    await living(site, *tasks)
    assert await site.states() == {0: "running"}, "accounting may know it a moment later"
    await living(site, *tasks)
    assert await site.states() == {0: "running", 2: "failed"}
    point = (await site.points())[2]
    assert point.message == "The point was cancelled before it started." and not point.missing
    assert (await site.run()).ended_at is None


async def test_a_cut_list_of_waiting_tasks_cancels_none(
    site: FollowedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living_module, "_SOON", 0.0)
    waiting = a_task("[1,...]", "PENDING", reason="Priority")
    site.slurm.detailed = {number: waiting for number in range(4)}
    for _ in range(3):
        await living(site, waiting)
    assert await site.states() == {}


@pytest.mark.parametrize("state", ["running", "failed"])
async def test_a_point_that_slurm_has_put_back_waits(site: FollowedRun, state: str) -> None:
    await reported(site, 1, state, message="The point was stopped")
    await living(site, a_task("0", "RUNNING"), a_task("[1-3%1]", "PENDING", reason="BeginTime"))
    point = (await site.points())[1]
    assert (str(point.state), point.ended_at) == ("waiting", None)
    assert point.message == "Slurm has put the point back into its queue."
    await site.reports.take(a_run(), RunPoint(number=1, state=PointState.RUNNING, attempt=2))
    assert (await site.states())[1] == "running"


@pytest.mark.parametrize(("state", "ago"), [("succeeded", LONG_AGO), ("running", 2.0)])
async def test_an_old_view_puts_no_point_back(site: FollowedRun, state: str, ago: float) -> None:
    await reported(site, 1, state, ago=ago)
    await living(site, a_task("[0-3%1]", "PENDING", reason="Priority"))
    assert (await site.states())[1] == state


def release(number: int) -> str:
    words = f"Release it with 'scontrol release 12_{number}'"
    return f"{words}, or stop the run and run it again."


async def test_points_whose_node_could_not_begin_them_name_it(site: FollowedRun) -> None:
    """As Slurm 22.05 and 24.11 have an array with --requeue whose prolog fails: the tasks have no
    node any more, and were submitted again as the node was drained."""
    prolog = {"reason": HELD, "partition": "cpu", "submit_time": 1795806284.0}
    site.slurm.detailed = {
        0: a_task("0", "PENDING", **prolog),
        1: a_task("1", "PENDING", **{**prolog, "submit_time": 1795806500.0}),
        2: a_task("2", "PENDING", **{**prolog, "partition": "gpu,debug"}),
        3: a_task("3", "PENDING", reason="job requeued in held state"),
    }
    drained = {"state": "IDLE+DRAIN", "reason_at": 1795806284.0, "partitions": ("cpu",)}
    nodes = (
        Node(name="cpu01", address="a", reason="Prolog error", **drained),
        Node(name="cpu02", address="a", reason="tests", **{**drained, "state": "IDLE"}),
        Node(name="cpu03", address="a", reason="fan", **{**drained, "reason_at": 1795800000.0}),
    )
    await living(site, a_task("[0-3]", "PENDING", **prolog), nodes=nodes)
    unknown = "Held because its launch failed on its node."
    assert site.living.words[KEY] == {
        0: "Held because its launch failed, and cpu01 (Prolog error) was taken out of service. "
        + release(0),
        1: f"{unknown} {release(1)}",
        2: f"{unknown} {release(2)}",
        3: f"Requeued and held. {release(3)}",
    }


async def test_held_points_say_who_holds_them(site: FollowedRun) -> None:
    site.slurm.detailed = {
        0: a_task("0", "PENDING", reason="JobHeldUser"),
        1: a_task("1", "PENDING", reason="JobHeldAdmin"),
        2: a_task("2", "PENDING", reason="Resources"),
        3: a_task("3", "PENDING", reason="BeginTime"),
    }
    await living(site, a_task("[0-3%1]", "PENDING", reason="JobArrayTaskLimit,JobHeldAdmin"))
    assert site.living.words[KEY] == {
        0: f"Held by its owner. {release(0)}",
        1: "Held by an administrator.",
        3: "Waiting for its start time.",
    }
    await living(site, a_task("[0-3%1]", "PENDING", reason="Priority"))
    assert site.living.words[KEY] == {}, "they were released"


@pytest.mark.parametrize(
    ("after", "states"), [(KEY[1].replace("5e", "6e"), {}), ("", {0: "failed"})]
)
async def test_a_run_whose_run_before_failed_is_left_to_its_end(
    store: Store, after: str, states: dict[int, str]
) -> None:
    """Slurm cancels its tasks; why it did not start is known from the run before it."""
    await store.table(RunTable).add_run(a_run(points=1, after=after))
    site = FollowedRun(store)
    site.slurm.tasks = {0: a_task("0", "CANCELLED")}
    for _ in range(3):
        await living(site, a_task("0", "CANCELLED", end_time=time.time() - 60))
    assert await site.states() == states


async def test_a_task_that_was_killed_ends_its_point(site: FollowedRun) -> None:
    await reported(site, 0, "running")
    site.slurm.tasks = {0: a_task("0", "CANCELLED", nodes=("gpu01",), reason="CancelledBy:grace")}
    killed = a_task("0", "CANCELLED", nodes=("gpu01",), end_time=time.time() - 60)
    await living(site, killed, a_task("[1-3%1]", "PENDING", reason="Priority"))
    point = (await site.points())[0]
    assert (str(point.state), point.message) == ("failed", "The point was cancelled by grace.")
    assert point.missing, "what it logged last is in its folder"


async def test_a_point_that_was_cancelled_says_by_whom(site: FollowedRun) -> None:
    """It knows only that it got SIGTERM."""
    await reported(site, 0, "failed", message="The point was stopped")
    await reported(site, 1, "failed", message="ValueError: x")
    gone = {"nodes": ("gpu01",), "end_time": time.time() - 60}
    tasks = [a_task(str(number), "CANCELLED", **gone) for number in range(2)]
    waiting = a_task("[2-3%1]", "PENDING", reason="Priority")
    await living(site, *tasks, waiting)
    assert (await site.points())[0].message == "The point was stopped", "accounting is behind"
    site.slurm.tasks = {n: task.altered(reason="CancelledBy:ada") for n, task in enumerate(tasks)}
    await living(site, *tasks, waiting)
    points = await site.points()
    assert points[0].message == "The point was cancelled by ada."
    assert points[1].message == "ValueError: x"


async def test_without_accounting_old_tasks_are_not_cancelled(
    site: FollowedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld forgets ended tasks after some minutes."""
    monkeypatch.setattr(living_module, "_SOON", 0.0)
    monkeypatch.setattr(living_module, "_FORGETS", -1.0)
    task = a_task("0", "RUNNING")
    site.slurm.detailed = {0: task}
    for _ in range(3):
        await living(site, task)
    assert await site.states() == {}


HELD = "launch failed requeued held"
GHOSTS = (a_task("0", "RUNNING"), a_task("[1-3%1]", "PENDING", reason=HELD))


async def test_a_run_ends_with_its_points_whatever_slurm_holds(site: FollowedRun) -> None:
    """A slurmctld that was killed keeps ghosts of tasks that have ended."""
    after = a_run(id="7e2f3c1a", server="run-7e2f3c1a", after=KEY[1], job_id="13")
    await site.store.table(RunTable).add_run(after)
    for number in range(4):
        await reported(site, number, "succeeded")
    await living(site, *GHOSTS)
    run = await site.run()
    assert run.ended_at is not None and abs(run.ended_at - (time.time() - LONG_AGO)) < 5
    stopped = [(server, reason.code) for _, server, reason in site.hub.stopped]
    assert stopped == [("run-5e2f3c1a", "finished")]
    assert site.slurm.released == ["13"], "the run after it would never start"


async def test_ghosts_that_the_hub_has_lost_are_cancelled_in_slurm(site: FollowedRun) -> None:
    for number in range(4):
        await reported(site, number, "failed" if number else "succeeded")
    site.hub.failure = HubUnavailable("The Hub does not answer.")
    await living(site, a_task("0", "RUNNING"))
    assert (await site.run()).ended_at is None and site.slurm.cancelled == []
    site.hub.failure = NotFound("No such server is running.")
    await living(site, a_task("0", "RUNNING"))
    assert (await site.run()).ended_at is not None and site.slurm.cancelled == [("12", "ada")]
    assert site.slurm.released == []


@pytest.mark.parametrize(
    ("points", "tasks"),
    [
        ((LONG_AGO, LONG_AGO, LONG_AGO, 3.0), GHOSTS),
        ((LONG_AGO, LONG_AGO, LONG_AGO), GHOSTS),
        ((LONG_AGO,) * 4, (a_task("0", "COMPLETED"),)),
    ],
    ids=["ends now", "one runs", "slurm ends it"],
)
async def test_a_run_that_ends_by_itself_is_not_ended(
    site: FollowedRun, points: Any, tasks: Any
) -> None:
    site.slurm.detailed = dict.fromkeys(range(4), GHOSTS[0])
    for number, ago in enumerate(points):
        await reported(site, number, "succeeded", ago=ago)
    await living(site, *tasks)
    assert (await site.run()).ended_at is None and site.hub.stopped == []


@pytest.mark.parametrize("project", [True, False])
async def test_points_that_wait_for_a_limit_of_a_project_have_a_way_out(
    site: FollowedRun, project: bool
) -> None:
    run = {"id": KEY[1]} | ({"project": "proteins"} if project else {})
    site.slurm.detailed = {0: a_task("0", "PENDING", reason="AssocGrpGRESMinutes")}
    waits = a_task("[0-3]", "PENDING", reason="AssocGrpGRESMinutes")
    await living(site, waits, options={"run": run}, space="proteins" if project else "")
    words = site.living.words[KEY][0]
    assert words.startswith("A limit of the account is reached: GPU time together")
    assert ("the account of the project 'proteins'" in words) is project
