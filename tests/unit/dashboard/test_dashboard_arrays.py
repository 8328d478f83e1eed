"""An array is one session with many jobs: on the cluster page, in its numbers, and in mails."""

from __future__ import annotations

from clusters import NOW, job, record, snapshot, waiting
from fake_watcher import ToldTelemetry

from portal.dashboard.builder import Builder
from portal.notices.due import due

TASKS = (job("7_0"), job("7_1", end_time=NOW + 60.0), waiting("7_[2-9%2]", "ada"))


def test_its_tasks_are_the_session_s() -> None:
    told, telemetry = snapshot(*TASKS, job("8")), ToldTelemetry()
    items = Builder().build(told, [record("S", "7")], telemetry.readings(told), telemetry.busy)
    assert {id_: item.session_id for id_, item in items.jobs.items()} == {
        "7_0": "S",
        "7_1": "S",
        "7_[2-9%2]": "S",
        "8": None,
    }
    assert (items.summary.sessions_running, items.summary.sessions_pending) == (1, 0)
    assert (items.summary.jobs_running, items.summary.jobs_pending) == (3, 1)


def test_one_that_waits_is_one_session() -> None:
    told, telemetry = snapshot(waiting("7_[0-9%2]", "ada")), ToldTelemetry()
    items = Builder().build(told, [record("S", "7")], telemetry.readings(told), telemetry.busy)
    assert (items.summary.sessions_running, items.summary.sessions_pending) == (0, 1)


def test_nobody_gets_a_mail_for_each_task() -> None:
    session = record("S", "7", ready_at=NOW - 60, started_at=NOW - 60)
    jobs = {task.id: task for task in TASKS}
    sessions = dict.fromkeys(jobs, session)
    assert not list(due(sessions, jobs, NOW, waited=0.0, before_end=600.0))
    alone = {"7": job("7", end_time=NOW + 10.0)}
    assert list(due({"7": session}, alone, NOW, waited=0.0, before_end=600.0))
