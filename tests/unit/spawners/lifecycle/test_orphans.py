"""Jobs of sessions that an older database of the Hub does not know."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import snapshot
from session_records import recorded as a_record

from portal.errors import Conflict, SlurmUnavailable
from portal.launch.kinds import JupyterLab, reserved_for
from portal.models.cluster.array import array_id
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.session.session import SessionState
from portal.sessions.unknown_jobs import Known, orphan_jobs
from portal.store import Store
from spawners.launch.unknown_jobs import end_unknown
from spawners.lifecycle.orphans import Orphans, record_of
from spawners.lifecycle.reconciler import Reconciler
from spawners.lifecycle.session_recorder import Recorder
from spawners.session import SessionSpawner

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
        self.error = ""

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        now = {"taken_at": time.time(), "asked_at": time.monotonic(), "error": self.error}
        return snapshot(*self.jobs.values()).model_copy(update=now)

    async def ended_job(self, job_id: str) -> Job | None:
        return None if job_id in self.jobs else Job(id=job_id, state=JobState.CANCELLED)

    async def cancel(self, job_id: str, user: str | None = None) -> bool:
        self.cancelled.append(job_id)
        for id_, job in self.jobs.items():
            if array_id(id_) == job_id:
                self.jobs[id_] = job.model_copy(update={"state": JobState.CANCELLED})
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


class Launcher:
    """As much of a spawner as asks what its server has left."""

    end_job = SessionSpawner.end_job
    account, log_directory, log, _log_name = "ada", "/var/log/portal", LOG, "ada"

    def __init__(self, recorder: Recorder, slurm: Slurm, name: str = "", uptime: float = 1e6):
        began = time.monotonic() - uptime
        self.shared: Any = SimpleNamespace(recorder=recorder, cluster=slurm, began=began)
        self.user, self.name, self.reserved = SimpleNamespace(name="ada"), name, reserved_for(name)

    async def launches(self) -> None:
        kind: Any = self.reserved.kind if self.reserved else JupyterLab
        await end_unknown(self, kind)  # type: ignore[arg-type]


def hub(store: Store, slurm: Any) -> Recorder:
    """A Hub that has not looked at the jobs."""
    return Recorder(store, Reconciler(slurm, LOG), LOG)


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
        await Launcher(recorder, slurm).launches()
    await Launcher(recorder, slurm, "second").launches()
    assert slurm.cancelled == ["9"], "it has not begun"
    await Launcher(recorder, slurm, "third").launches()


async def test_a_session_that_ends_holds_up_no_launch(store: Store) -> None:
    slurm = Slurm(a_job())
    recorder = await recorded(slurm, store)
    slurm.jobs = {"7": a_job(state=JobState.COMPLETING)}
    await Launcher(recorder, slurm).launches()
    stopped = a_record(
        id="s", user="ada", server="mine", job_id="10", ending_code="stopped", submitted_at=1
    )
    recorder.close(stopped)
    slurm.jobs = {"10": a_job("10", comment="portal:lab:mine")}
    for uptime in (1e6, 5.0):
        await Launcher(recorder, slurm, "mine", uptime).launches()
    assert slurm.cancelled == []


RUN = "run-0123456789abcdef0123"


@pytest.mark.parametrize("found", [False, True], ids=["not yet found", "found"])
@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
async def test_a_run_whose_first_job_is_not_known_is_not_done_twice(
    store: Store, state: JobState, found: bool
) -> None:
    """Slurm took the job when the Hub that submitted it had been killed."""
    theirs = {"comment": f"portal:lab:{RUN}", "state": state}
    slurm = Slurm(
        a_job("7_1", **theirs),
        a_job("7_[2-5]", **theirs | {"state": JobState.PENDING}),
        a_job("8", **theirs, user="eve"),
        a_job("9", **theirs, stdout="/home/ada/mine.log"),
        a_job("10", **theirs | {"comment": "portal:lab:run-ffffffffffffffffffff"}),
    )
    recorder = await recorded(slurm, store) if found else hub(store, slurm)
    await Launcher(recorder, slurm, RUN, 5.0).launches()
    assert slurm.cancelled == ["7"], "nobody else's, and of no other server"


async def test_a_session_of_ones_own_that_is_not_known_is_not_started_twice(store: Store) -> None:
    slurm = Slurm(a_job())
    recorder = hub(store, slurm)
    for _ in range(2):
        with pytest.raises(Conflict, match="Job 7 of this session runs on gpu01"):
            await Launcher(recorder, slurm, "", 5.0).launches()
    assert [record.job_id for record in recorder.closing.orphans("ada", "")] == ["7"], "shown"
    slurm.jobs = {"7": a_job(state=JobState.PENDING, nodes=())}
    await Launcher(hub(store, slurm), slurm, "", 5.0).launches()
    assert slurm.cancelled == ["7"]


async def test_a_hub_that_has_begun_asks_slurm_before_it_submits(store: Store) -> None:
    slurm = Slurm()
    slurm.error = "Slurm does not answer: timed out."
    with pytest.raises(SlurmUnavailable, match=r"nothing was submitted\. .* timed out\. Try again"):
        await Launcher(hub(store, slurm), slurm, RUN, 5.0).launches()
    await Launcher(hub(store, slurm), slurm, RUN).launches()


@pytest.mark.parametrize(
    ("own", "cancelled"), [(JobState.PENDING, ["7"]), (JobState.RUNNING, ["7"]), (None, [])]
)
async def test_a_job_beside_the_one_that_its_server_has_is_cancelled(
    store: Store, own: JobState | None, cancelled: list[str]
) -> None:
    slurm = Slurm(
        a_job("7_1", comment=f"portal:lab:{RUN}"),
        a_job("5", comment="portal:lab:other"),
        a_job("6", comment=f"portal:lab:{RUN}", user="eve"),
        *([a_job("12_1", comment=f"portal:lab:{RUN}", state=own)] if own else []),
    )
    known = Known({"12"}, (), {("ada", RUN, "12"), ("ada", "other", "11")})
    recorder = hub(store, slurm)
    watcher: Any = slurm
    await Orphans(watcher, recorder, lambda: known, LOGS, LOG).find()
    assert slurm.cancelled == cancelled
    assert recorder.job_ids == {"5", "6", "7"} - set(cancelled), "the others are shown"


async def test_a_slurm_that_does_not_answer_is_asked_again(store: Store) -> None:
    slurm: Any = Slurm(a_job())
    slurm.error = "Slurm does not answer."
    with pytest.raises(SlurmUnavailable):  # or its next look would be ten minutes later
        await Orphans(slurm, hub(store, slurm), lambda: NOTHING, LOGS, LOG).find()


async def test_what_the_database_knows_is_no_orphan(store: Store) -> None:
    known = a_record(id="s", user="ada", job_id="7", submitted_at=1)
    await store.sessions.save(known)
    recorder = await recorded(Slurm(a_job()), store)
    assert recorder.closing.orphans("ada", "") == []


@pytest.mark.parametrize("server", ["course-deep", "room-deep", "rehearsal-deep"])
def test_a_comment_that_anybody_can_write_puts_no_job_into_a_course(server: str) -> None:
    record = record_of(a_job(comment=f"portal:lab:{server}"))
    assert (record.server, record.space) == (server, "")
    assert record_of(a_job(comment="portal:lab:kernel-01234567")).work == "kernel"
