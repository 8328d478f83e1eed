"""Jobs of sessions that an older database of the Hub does not know."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import snapshot
from session_records import recorded as a_record

from portal.errors import Conflict
from portal.launch.kinds import reserved_for
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.session.session import SessionState
from portal.store import Store
from spawners.launch import launch
from spawners.lifecycle.orphans import Known, Orphans, orphan_jobs, record_of
from spawners.lifecycle.reconciler import Reconciler
from spawners.lifecycle.session_recorder import Recorder

LOGS = "/var/log/portal/session-0a1b2c3d-"
LOG = logging.getLogger("test")
NOTHING = Known((), ())


def a_job(id_: str = "7", **more: Any) -> Job:
    values = {
        "user": "ada",
        "state": JobState.RUNNING,
        "nodes": ("gpu01",),
        "comment": "portal:lab:",
        "stdout": f"{LOGS}1.log",
        "submit_time": 100.0,
        "start_time": 105.0,
    }
    return Job(id=id_, **{**values, **more})


def found(*jobs: Job, known: Known = NOTHING) -> list[str]:
    return [job.id for job in orphan_jobs(jobs, known, LOGS, 200.0)]


def test_jobs_with_the_portals_mark_are_found() -> None:
    array = a_job("8_[3-5]", state=JobState.PENDING, nodes=(), submit_time=110.0), a_job("8_2")
    assert found(a_job(), *array) == ["7", "8_2"]
    assert found(a_job(), known=Known({"7"}, ())) == []
    assert found(a_job(), known=Known((), {("ada", "")})) == [], "its id is about to be stored"


@pytest.mark.parametrize(
    "more",
    [
        {"comment": "portal"},
        {"comment": "lab:"},
        {"stdout": "/var/log/another-portal/session-1.log"},
        {"stdout": "/var/log/portal/session-ffffffff-1.log"},
        {"state": JobState.COMPLETED},
        {"submit_time": 201.0},
        {"user": "6101"},
    ],
    ids=str,
)
def test_others_are_not(more: dict[str, Any]) -> None:
    assert found(a_job(**more)) == []


def test_a_user_cannot_fill_the_database_with_them() -> None:
    assert len(found(*(a_job(str(number)) for number in range(500)))) == 20


class Slurm:
    """The watcher of the Hub."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.cancelled: list[str] = []

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        return snapshot(*self.jobs.values()).model_copy(update={"taken_at": time.time()})

    async def ended_job(self, job_id: str) -> Job | None:
        return None if job_id in self.jobs else Job(id=job_id, state=JobState.CANCELLED)

    async def cancel(self, job_id: str, user: str | None = None) -> bool:
        self.cancelled.append(job_id)
        return True

    def position(self, job: Job, snapshot: ClusterSnapshot) -> int | None:
        return None


async def recorded(slurm: Slurm, store: Store) -> Recorder:
    """A Hub that was restored has looked at the jobs."""
    cluster: Any = slurm
    recorder = Recorder(store, Reconciler(cluster, LOG), LOG)
    orphans = Orphans(cluster, recorder, lambda: NOTHING, LOGS, LOG)
    await orphans.find()
    await orphans.find()
    return recorder


def launcher(recorder: Recorder, slurm: Slurm, name: str = "") -> Any:
    shared = SimpleNamespace(recorder=recorder, cluster=slurm)
    user = SimpleNamespace(name="ada")
    return SimpleNamespace(shared=shared, user=user, name=name, reserved=reserved_for(name))


async def test_an_unknown_session_is_shown_and_not_started_twice(store: Store) -> None:
    slurm = Slurm(
        a_job(),
        a_job(
            "9", comment="portal:lab:second", state=JobState.PENDING, nodes=(), submit_time=110.0
        ),
    )
    recorder = await recorded(slurm, store)
    await recorder._save_what_waits()
    first, second = await store.sessions.living()
    assert (first.id, first.user, first.server, first.environment) == (
        "job-7-100",
        "ada",
        "",
        "lab",
    )
    assert (first.state, first.nodes, first.job_id) == (SessionState.RUNNING, ("gpu01",), "7")
    assert (second.state, second.server) == (SessionState.PENDING, "second")
    with pytest.raises(
        Conflict, match="Job 7 of this session runs on gpu01, but the portal no lon"
    ):
        await launch._end_lost(launcher(recorder, slurm))
    await launch._end_lost(launcher(recorder, slurm, "second"))
    assert slurm.cancelled == ["9"], "it has not begun"
    await launch._end_lost(launcher(recorder, slurm, "third"))


async def test_a_session_that_ends_holds_up_no_launch(store: Store) -> None:
    slurm = Slurm(a_job())
    recorder = await recorded(slurm, store)
    slurm.jobs = {"7": a_job(state=JobState.COMPLETING)}
    await launch._end_lost(launcher(recorder, slurm))
    stopped = a_record(
        id="s", user="ada", server="mine", job_id="10", ending_code="stopped", submitted_at=1
    )
    recorder.close(stopped)
    slurm.jobs = {"10": a_job("10")}
    await launch._end_lost(launcher(recorder, slurm, "mine"))


async def test_what_the_database_knows_is_no_orphan(store: Store) -> None:
    known = a_record(id="s", user="ada", job_id="7", submitted_at=1)
    await store.sessions.save(known)
    recorder = await recorded(Slurm(a_job()), store)
    assert recorder.closing.orphan("ada", "") is None


@pytest.mark.parametrize("server", ["course-deep", "room-deep", "rehearsal-deep"])
def test_a_comment_that_anybody_can_write_puts_no_job_into_a_course(server: str) -> None:
    record = record_of(a_job(comment=f"portal:lab:{server}"))
    assert (record.server, record.space) == (server, "")
    assert record_of(a_job(comment="portal:lab:kernel-01234567")).work == "kernel"
