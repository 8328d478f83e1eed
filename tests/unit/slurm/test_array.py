"""An array as one job: waiting, running and over, as squeue and sacct tell of its tasks."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import snapshot

from portal.models.cluster.array import ArrayJob, array_id, task_numbers, whole_job
from portal.models.cluster.cluster import Job, JobState
from portal.sessions.ending import explain
from portal.slurm import Cluster, parse

SEPARATOR = "\x1f0"


def task(id_: str, state: str, **more: Any) -> Job:
    placed = {"nodes": ("gpu01",), "start_time": 100.0} if state != "PENDING" else {}
    return Job(id=id_, state=JobState(state), user="ada", **{**placed, **more})


def whole(*tasks: Job) -> ArrayJob:
    others = [task("12", "RUNNING"), task("1234_1", "FAILED"), task("123+1", "FAILED")]
    job = whole_job({job.id: job for job in [*others, *tasks]}, "123")
    assert isinstance(job, ArrayJob) and job.id == "123"
    return job


@pytest.mark.parametrize(
    ("id_", "array", "numbers"),
    [
        ("123", "123", ()),
        ("123_4", "123", (4,)),
        ("123_[5-9%2]", "123", (5, 6, 7, 8, 9)),
        ("123_[7]", "123", (7,)),
        ("123_[0-2,5,8-9%10]", "123", (0, 1, 2, 5, 8, 9)),
        ("123_[0-8:2]", "123", (0, 2, 4, 6, 8)),
        ("123_[1,3,5,...]", "123", (1, 3, 5)),
        ("123+1", "123+1", ()),
        ("", "", ()),
        ("123_x", "123_x", ()),
        ("123_[", "123_[", ()),
    ],
)
def test_ids(id_: str, array: str, numbers: tuple[int, ...]) -> None:
    assert (array_id(id_), task_numbers(id_)) == (array, numbers)


def test_a_range_of_chance_does_not_fill_the_memory() -> None:
    assert len(task_numbers("123_[0-99999999999]")) <= 100_001


def test_a_job_that_is_no_array_is_itself() -> None:
    job = task("123", "RUNNING")
    assert whole_job({"123": job, "123_1": task("123_1", "FAILED")}, "123") is job
    assert whole_job({"124_1": task("124_1", "RUNNING")}, "12") is None
    assert whole_job({}, "123") is None
    one = task("124_1", "RUNNING")
    assert whole_job({"124_1": one}, "124_1") is one


def test_it_waits_until_a_task_runs() -> None:
    job = whole(task("123_[0-4%2]", "PENDING", reason="Resources", start_time=500.0))
    assert (job.state, job.reason, job.start_time) == (JobState.PENDING, "Resources", 500.0)
    assert job.nodes == ()


def test_it_runs_while_any_task_waits_or_runs() -> None:
    waiting = task("123_[2-4%2]", "PENDING")
    running = task("123_1", "RUNNING", nodes=("gpu02",), gpu_indexes={"gpu02": (0,)})
    ended = task("123_0", "FAILED", exit_code=1, end_time=150.0)
    for tasks in ((waiting, running), (waiting, running, ended), (running,), (running, ended)):
        job = whole(*tasks)
        assert (job.state, job.nodes) == (JobState.RUNNING, ("gpu02",))
        assert (job.exit_code, job.end_time) == (None, None)
        assert job.tasks == ({JobState.FAILED: 1} if ended in tasks else {})
        assert job.gpu_indexes == {}, "those of one task are not the array's"
    between = whole(waiting, ended)
    assert between.state.running and between.nodes == ("gpu01",)
    assert between.exit_code is None, "more tasks are to come"


def test_it_is_completing_when_nothing_waits_or_runs() -> None:
    completing = task("123_1", "COMPLETING")
    assert whole(completing, task("123_0", "CANCELLED")).state is JobState.COMPLETING
    assert whole(completing, task("123_[2-3]", "PENDING")).state is JobState.RUNNING


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("COMPLETED", "COMPLETED"), "COMPLETED"),
        (("TIMEOUT", "TIMEOUT"), "TIMEOUT"),
        (("COMPLETED", "CANCELLED"), "CANCELLED"),
        (("COMPLETED", "TIMEOUT"), "FAILED"),
        (("COMPLETED", "FAILED", "CANCELLED"), "FAILED"),
    ],
)
def test_it_is_over_when_no_task_is_left(states: tuple[str, ...], state: str) -> None:
    tasks = [
        task(f"123_{number}", name, end_time=200.0 + number, exit_code=int(name == "FAILED"))
        for number, name in enumerate(states)
    ]
    job = whole(*tasks)
    assert (job.state, job.start_time) == (JobState(state), 100.0)
    assert job.end_time == 199.0 + len(states)
    assert job.exit_code == int("FAILED" in states)


def row(id_: str, raw: str, state: str, memory: str = "") -> str:
    values = dict.fromkeys(parse.SACCT_FIELDS, "")
    values |= {"JobID": id_, "JobIDRaw": raw, "State": state, "MaxRSS": memory, "User": "ada"}
    return "".join(f"{values[name]}{SEPARATOR}" for name in parse.SACCT_FIELDS) + "\n"


def test_accounting_has_all_tasks() -> None:
    text = row("123_1", "123", "COMPLETED") + row("123_1.batch", "123.batch", "COMPLETED", "70M")
    text += row("123_0", "124", "FAILED") + row("123_0.batch", "124.batch", "FAILED", "900M")
    job = parse.sacct_job(text + row("123_[2-4%1]", "125", "CANCELLED by 7"), SEPARATOR, "123")
    assert isinstance(job, ArrayJob)
    assert job.tasks == {JobState.COMPLETED: 1, JobState.FAILED: 1, JobState.CANCELLED: 3}
    assert (job.state, job.peak_memory) == (JobState.FAILED, 900)
    whole_list = row("123_[0-4%1]", "125", "CANCELLED by 7")
    for rows in (whole_list + text, text + whole_list):
        again = parse.sacct_job(rows, SEPARATOR, "123")
        assert isinstance(again, ArrayJob) and again.tasks == job.tasks
    # One of its tasks has the array's own number.
    single = parse.sacct_job(text, SEPARATOR, "123_1")
    assert single is not None and (single.state, single.peak_memory) == (JobState.COMPLETED, 70)
    by_own_number = parse.sacct_job(text, SEPARATOR, "124")
    assert by_own_number is not None and by_own_number.state is JobState.FAILED
    living = parse.sacct_job(text + row("123_[2-4%1]", "125", "PENDING"), SEPARATOR, "123")
    assert living is not None and not living.state.ended


def test_accounting_has_each_task() -> None:
    text = row("123_0", "124", "FAILED") + row("123_[0,2-4%1]", "125", "CANCELLED by 7")
    text += row("123_1", "123", "RUNNING") + row("7", "7", "FAILED")
    tasks = parse.sacct_tasks(text, SEPARATOR, "123")
    assert {number: str(job.state) for number, job in tasks.items()} == {
        0: "FAILED",
        2: "CANCELLED",
        3: "CANCELLED",
        4: "CANCELLED",
    }


@pytest.mark.parametrize(
    ("states", "code", "message"),
    [
        ({"COMPLETED": 5}, "finished", "The run has finished: 5 of 5 points succeeded."),
        ({"COMPLETED": 1}, "finished", "The run has finished: 1 of 1 point succeeded."),
        (
            {"COMPLETED": 1200, "FAILED": 2, "TIMEOUT": 1},
            "failed",
            "The run has ended: 1,200 of 1,203 points succeeded, 2 failed, 1 reached the time "
            "limit.",
        ),
        (
            {"COMPLETED": 5, "CANCELLED": 1},
            "cancelled",
            "The run has ended: 5 of 6 points succeeded, 1 was cancelled.",
        ),
        (
            {"TIMEOUT": 2},
            "walltime",
            "The run has ended: 0 of 2 points succeeded, 2 reached the time limit.",
        ),
    ],
)
def test_its_ending_has_the_numbers(states: dict[str, int], code: str, message: str) -> None:
    names = [name for name, count in states.items() for _ in range(count)]
    job = whole(*(task(f"123_{number}", name) for number, name in enumerate(names)))
    for ready in (True, False):
        ending = explain(job, "", ready=ready, owner="ada")
        assert (ending.code, ending.message, ending.job_id) == (code, message, "123")


def test_its_ending_names_the_cause() -> None:
    log = "/opt/lab/bin/python3: No module named portal_session.runs"
    ending = explain(whole(task("123_0", "FAILED", exit_code=1)), log, ready=False)
    assert ending.message == (
        "The run has ended: 0 of 1 point succeeded, 1 failed. The environment's portal-session is "
        "too old for runs; an admin must build or update the environment."
    )


def test_a_stop_and_a_cancellation_are_told_as_of_any_session() -> None:
    job = whole(task("123_0", "COMPLETED"), task("123_1", "CANCELLED"))
    assert explain(job, "", stopped=True, stopped_by="ada", owner="ada").code == "stopped"
    assert explain(job, "", owner="ada").code == "cancelled"


def test_its_place_is_that_of_its_first_task() -> None:
    waiting = [
        task("7", "PENDING", priority=9, partition="gpu"),
        task("123_[2-4%1]", "PENDING", priority=5, partition="gpu"),
        task("123_1", "PENDING", priority=6, partition="gpu"),
    ]
    seen = snapshot().model_copy(update={"jobs": {job.id: job for job in waiting}})
    cluster = Cluster()
    assert cluster.position(whole(*waiting), seen) == 2
    assert cluster.position(waiting[0], seen) == 1
    cluster.close()
