"""A launch's job is submitted exactly once, with a Slurm that goes away as a test wants it."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hub_database import HubDatabase

from portal.errors import PortalError, SlurmRefused, SlurmUnavailable, StartFailed
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState, Node
from portal.slurm import CommandTimedOut
from spawners.launch import resubmit
from spawners.launch import submit as submission
from spawners.launch.resubmit import lost, submit_again
from spawners.launch.submit import submit_once
from spawners.lifecycle import wait_for_server as arrival
from spawners.lifecycle.job_watch import JobWatch
from spawners.lifecycle.progress import Progress
from spawners.spawner import PortalSpawner

REQUEST: Any = object()
LOG = "session-1.log"


class Slurm:
    """Takes jobs. Each submission follows ``script``: "ok", "refused", "away" (nothing was taken),
    "gone" (and nothing is answered for a while), "taken" (the answer was lost) or "late" (given up,
    and taken after that). ``away_for``: so many questions are not answered."""

    def __init__(self, *script: str, away_for: int = 0) -> None:
        self.script, self.away_for = list(script), away_for
        self.jobs: dict[str, Job] = {}
        self.over: dict[str, Job] = {}
        self.nodes = {
            name: Node(name=name, address=f"10.0.0.{n}", state="IDLE")
            for n, name in enumerate(("cpu01", "cpu02"), 1)
        }
        self.cancelled: list[str] = []
        self.submitted: list[str] = []
        self.last: ClusterSnapshot | None = None

    def take(self, path: str, **about: Any) -> str:
        id_ = str(len(self.submitted) + 1)
        self.submitted.append(path)
        self.jobs[id_] = Job(id=id_, user="ada", state=JobState.PENDING, stdout=path).model_copy(
            update=about
        )
        return id_

    def submit(self, path: str) -> str:
        step = self.script.pop(0) if self.script else "ok"
        if step == "refused":
            raise SlurmRefused("Slurm refused: no.")
        if step == "late":
            process: Any = SimpleNamespace(wait=lambda: self.take(path))
            raise CommandTimedOut("Slurm did not answer within 20 s (sbatch).", process)
        if step == "taken":
            self.take(path)
        if step == "gone":
            self.away_for = 3
        if step in ("taken", "away", "gone"):
            raise SlurmUnavailable("Slurm does not answer: Zero bytes were transmitted.")
        return self.take(path)

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        await asyncio.sleep(0)
        away, self.away_for = self.away_for > 0, self.away_for - 1
        self.last = ClusterSnapshot(
            taken_at=0 if away else time.time(),
            asked_at=0 if away else time.monotonic(),
            jobs={} if away else dict(self.jobs),
            nodes=self.nodes,
            error="Slurm does not answer." if away else "",
        )
        return self.last

    async def ended_job(self, job_id: str) -> Job | None:
        if job_id in self.jobs and not self.jobs[job_id].state.ended:
            return None
        gone = Job(id=job_id, state=JobState.UNKNOWN, reason="Forgotten")
        return self.over.get(job_id) or self.jobs.get(job_id) or gone

    async def cancel(self, job_id: str, user: str | None = None, *, gently: bool = False) -> bool:
        self.cancelled.append(job_id)
        self.jobs[job_id] = self.jobs[job_id].model_copy(update={"state": JobState.COMPLETING})
        return True

    def position(self, job: Job, snapshot: ClusterSnapshot) -> int | None:
        return None


class Spawner:
    """As much of PortalSpawner as a launch needs from its submission to its server."""

    trace = None
    wait_for_server = PortalSpawner.wait_for_server
    _submit_again = PortalSpawner._submit_again
    _cancelled = PortalSpawner._cancelled
    _give_up = PortalSpawner._give_up
    _see = PortalSpawner._see
    end_job = PortalSpawner.end_job
    serves = True

    def __init__(self, slurm: Slurm) -> None:
        self.slurm = slurm
        self.db = HubDatabase(note="Server", scopes=["a"], hashed="1")
        self.shared = SimpleNamespace(cluster=slurm)
        self.user = SimpleNamespace(name="ada", db=self.db, new_api_token=self.new_token)
        self.orm_spawner = SimpleNamespace(oauth_client=SimpleNamespace(secret="1"))
        self.log, self._log_name, self.account = logging.getLogger("test"), "ada", "ada"
        self.log_directory, self.log_name, self.output = "/logs", LOG, ""
        self.job_id, self.token_id, self.api_token = "", 1, "first"
        self.posted_port, self._port_posted = 0, asyncio.Event()
        self.watch_interval, self.server_timeout = 0.01, 5.0
        self.ending: Any = None
        self.progress_state, self.given = Progress(), []
        self.history = SimpleNamespace(
            resubmitted=lambda: self.given.append("resubmitted"),
            running=lambda job: None,
            stopping=lambda ending: self.given.append("stopping"),
        )
        self._watch: JobWatch | None = None

    @property
    def watch(self) -> JobWatch:
        if self._watch is None or self._watch.job_id != self.job_id:
            self._watch = JobWatch(self.slurm, self.job_id, "ada", self.log)  # type: ignore[arg-type]
        return self._watch

    def new_token(self, **about: Any) -> str:
        number = max(self.db.tokens) + 1
        self.db.tokens[number] = SimpleNamespace(id=number, hashed=str(number), **about)
        return f"token{number}"

    async def store_state(self) -> None:
        pass

    async def _log_tail(self) -> str:
        return self.output

    async def _record_ending(self, job: Job) -> None:
        self.ending = SimpleNamespace(message=f"The job ended: {job.state}.")

    def _found(self, address: str) -> str:
        return f"http://{address}:{self.posted_port}"

    def runs_on(self, node: str) -> None:
        """Its job has its node."""
        job = self.slurm.jobs[self.job_id]
        self.slurm.jobs[self.job_id] = job.model_copy(
            update={"state": JobState.RUNNING, "nodes": (node,)}
        )

    def posts(self, port: int = 5000) -> None:
        self.posted_port = port
        self._port_posted.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world of a launch, quick and saying yes."""
    logs = iter(range(2, 99))

    async def submit(spawner: Spawner, request: Any, log_name: str, token: str = "") -> str:
        assert request is REQUEST
        return spawner.slurm.submit(f"/logs/{log_name}")

    async def make_log(directory: str, account: str) -> str:
        return f"session-{next(logs)}.log"

    def find(db: HubDatabase, token: str) -> Any:
        return db.tokens[int(token.removeprefix("token"))]

    monkeypatch.setattr(submission, "submit", submit)
    monkeypatch.setattr(resubmit, "make_log", make_log)
    monkeypatch.setattr(resubmit.orm.APIToken, "find", staticmethod(find))
    monkeypatch.setattr(submission, "_PAUSE", 0.0)
    monkeypatch.setattr(arrival, "_QUIET", 0.05)


async def launched(spawner: Spawner) -> None:
    spawner.job_id = await submit_once(spawner, REQUEST)  # type: ignore[arg-type]


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


# -- the submission ------------------------------------------------------------------------------


@pytest.mark.parametrize("away_for", [0, 1, 7])
@pytest.mark.parametrize("step", ["away", "taken", "late"])
async def test_a_submission_that_was_not_answered_makes_one_job(step: str, away_for: int) -> None:
    spawner = Spawner(Slurm(step, away_for=away_for))
    await launched(spawner)
    assert spawner.slurm.submitted == [f"/logs/{LOG}"]
    assert spawner.job_id == "1"
    assert "Slurm does not answer" in spawner.progress_state.message


async def test_anothers_job_is_never_taken_for_its_own() -> None:
    slurm = Slurm("away")
    slurm.take(f"/logs/{LOG}", user="eve")  # who can know the name of nobody's log, but may try
    slurm.take("/logs/session-0.log")
    spawner = Spawner(slurm)
    await launched(spawner)
    assert spawner.job_id == "3"


async def test_a_slurm_that_is_away_for_long_is_waited_for() -> None:
    spawner = Spawner(Slurm(*["gone"] * 20, "ok"))
    await launched(spawner)
    assert len(spawner.slurm.submitted) == 1


async def test_where_slurm_answers_and_takes_nothing_the_launch_fails_in_its_words() -> None:
    spawner = Spawner(Slurm(*["away"] * 9))
    with pytest.raises(SlurmUnavailable, match="Zero bytes"):
        await launched(spawner)
    assert spawner.slurm.script.count("away") == 6


async def test_a_refusal_is_final() -> None:
    spawner = Spawner(Slurm("refused"))
    with pytest.raises(SlurmRefused):
        await launched(spawner)
    assert spawner.slurm.submitted == []


async def test_who_calls_it_off_meanwhile_leaves_nothing() -> None:
    slurm = Slurm("away", away_for=10**9)
    waits = asyncio.ensure_future(launched(Spawner(slurm)))
    await asyncio.sleep(0.02)
    waits.cancel()
    slurm.away_for = 0
    with pytest.raises(asyncio.CancelledError):
        await waits
    await asyncio.sleep(0.02)
    assert slurm.submitted == []


# -- the wait ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", JobState)
def test_only_what_came_to_nothing_by_itself_is_lost(state: JobState) -> None:
    gone = {"UNKNOWN", "NODE_FAIL", "BOOT_FAIL"}
    assert lost(Job(id="1", state=state), "Job 1 runs on cpu01.") == (state in gone)
    assert lost(Job(id="1", state=state), "") == (state in gone | {"FAILED"})
    # A program that is no server and has begun may have worked for somebody already.
    assert not lost(Job(id="1", state=state), "Job 1 runs on cpu01.", serves=False)
    assert lost(Job(id="1", state=state), "", serves=False) == (state in gone | {"FAILED"})


async def test_a_job_that_its_node_did_not_begin_is_submitted_again_once() -> None:
    """A node that has just ended a lost job refuses its id, without a word in the log."""
    spawner = Spawner(Slurm())
    await launched(spawner)
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    refused = {"state": JobState.FAILED, "exit_code": 1}
    spawner.slurm.over["1"] = spawner.slurm.jobs.pop("1").model_copy(update=refused)
    await until(lambda: spawner.job_id == "2")
    assert "Its node did not start job 1. Submitted again" in spawner.progress_state.message
    spawner.runs_on("cpu01")
    spawner.posts()
    assert await waits == "http://10.0.0.1:5000"


async def test_a_job_whose_prolog_failed_is_submitted_again_elsewhere() -> None:
    spawner = Spawner(Slurm())
    await launched(spawner)
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    ended = {"state": JobState.CANCELLED, "node_trouble": "cpu01 (Prolog error)"}
    spawner.slurm.over["1"] = spawner.slurm.jobs.pop("1").model_copy(update=ended)
    await until(lambda: spawner.job_id == "2")
    why = "Job 1 could not start on cpu01 (Prolog error). Submitted again"
    assert why in spawner.progress_state.message
    spawner.runs_on("cpu01")
    spawner.posts()
    assert await waits == "http://10.0.0.1:5000"


async def lost_once() -> tuple[Spawner, asyncio.Future[str]]:
    """A launch whose first job Slurm has lost, and what it waits for."""
    spawner = Spawner(Slurm())
    await launched(spawner)
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    del spawner.slurm.jobs["1"]
    await until(lambda: spawner.job_id == "2")
    return spawner, waits


async def test_a_job_that_slurm_forgot_is_submitted_again_once() -> None:
    spawner, waits = await lost_once()
    assert "Slurm has lost job 1. Submitted again as job 2" in spawner.progress_state.message
    assert spawner.given == ["resubmitted"]
    spawner.runs_on("cpu01")
    spawner.posts()
    assert await waits == "http://10.0.0.1:5000"
    assert len(spawner.slurm.submitted) == 2

    # What the first one's server says now, nobody hears: its token is gone.
    assert spawner.token_id == 2 and set(spawner.db.tokens) == {2}
    assert spawner.orm_spawner.oauth_client.secret == "2"
    assert spawner.api_token == "first", "JupyterHub would register the logins anew"


async def test_a_second_loss_is_an_end() -> None:
    spawner, waits = await lost_once()
    del spawner.slurm.jobs["2"]
    with pytest.raises(StartFailed, match="UNKNOWN"):
        await waits
    assert len(spawner.slurm.submitted) == 2


@pytest.mark.parametrize("state", [one for one in JobState if one.ended and one != "NODE_FAIL"])
async def test_what_ended_is_not_submitted_again(state: JobState) -> None:
    spawner = Spawner(Slurm())
    spawner.output = "Job 1 runs on cpu01."
    await launched(spawner)
    job = spawner.slurm.jobs.pop("1")
    spawner.slurm.over["1"] = job.model_copy(update={"state": state})
    if state is JobState.BOOT_FAIL:
        waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
        await until(lambda: spawner.job_id == "2")
        waits.cancel()
        return
    with pytest.raises(StartFailed, match=state):
        await spawner.wait_for_server(REQUEST)
    assert len(spawner.slurm.submitted) == 1


async def test_while_slurm_is_away_nothing_is_gone() -> None:
    spawner = Spawner(Slurm())
    await launched(spawner)
    del spawner.slurm.jobs["1"]
    spawner.slurm.away_for = 10**9
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    await asyncio.sleep(0.1)
    assert not waits.done() and len(spawner.slurm.submitted) == 1
    assert "Slurm does not answer" in spawner.progress_state.message
    waits.cancel()


async def test_after_a_restart_of_the_hub_nothing_is_submitted() -> None:
    spawner = Spawner(Slurm())
    await launched(spawner)
    del spawner.slurm.jobs["1"]
    with pytest.raises(StartFailed, match="UNKNOWN"):
        await spawner.wait_for_server()
    assert len(spawner.slurm.submitted) == 1


async def test_a_refusal_of_the_second_tells_both() -> None:
    spawner = Spawner(Slurm("ok", "refused"))
    await launched(spawner)
    del spawner.slurm.jobs["1"]
    with pytest.raises(PortalError, match=r"Slurm has lost job 1\. .*Slurm refused: no"):
        await spawner.wait_for_server(REQUEST)


# -- nodes that do not answer --------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["MIXED+NOT_RESPONDING", "ALLOCATED*", "DOWN", "DOWN*+DRAIN"])
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.CONFIGURING])
async def test_a_job_on_a_node_that_does_not_answer_is_submitted_elsewhere(
    state: JobState, flags: str
) -> None:
    spawner = Spawner(Slurm())
    await launched(spawner)
    spawner.runs_on("cpu01")
    spawner.slurm.jobs["1"] = spawner.slurm.jobs["1"].model_copy(update={"state": state})
    spawner.slurm.nodes["cpu01"] = Node(name="cpu01", address="10.0.0.1", state=flags)
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    await until(lambda: spawner.job_id == "2")
    assert spawner.slurm.cancelled == ["1"]
    assert "cpu01 does not answer Slurm" in spawner.progress_state.message
    # The second one gets nodes like this too: it is waited for.
    spawner.runs_on("cpu01")
    await asyncio.sleep(0.2)
    assert spawner.slurm.cancelled == ["1"] and not waits.done()
    assert "cpu01 does not answer Slurm" in spawner.progress_state.message
    spawner.posts()
    assert await waits == "http://10.0.0.1:5000"


async def test_a_job_that_has_begun_there_is_left_alone() -> None:
    spawner = Spawner(Slurm())
    spawner.output = "Job 1 runs on cpu01."
    await launched(spawner)
    spawner.runs_on("cpu01")
    spawner.slurm.nodes["cpu01"] = Node(name="cpu01", address="10.0.0.1", state="MIXED*")
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    await asyncio.sleep(0.2)
    assert spawner.slurm.cancelled == [] and not waits.done()
    assert "cpu01 does not answer Slurm" in spawner.progress_state.message
    spawner.posts()
    assert await waits == "http://10.0.0.1:5000"


async def test_a_job_that_cannot_be_ended_is_not_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    spawner = Spawner(Slurm())
    await launched(spawner)
    spawner.runs_on("cpu01")
    spawner.slurm.nodes["cpu01"] = Node(name="cpu01", address="10.0.0.1", state="MIXED*")

    async def away(*_: Any, **__: Any) -> bool:
        raise SlurmUnavailable("Slurm does not answer.")

    monkeypatch.setattr(spawner.slurm, "cancel", away)
    waits = asyncio.ensure_future(spawner.wait_for_server(REQUEST))
    await asyncio.sleep(0.2)
    assert len(spawner.slurm.submitted) == 1 and not waits.done()
    waits.cancel()


async def test_the_token_of_a_lost_session_is_not_made_up() -> None:
    spawner = Spawner(Slurm())
    spawner.db.tokens.clear()
    with pytest.raises(PortalError, match="lost this session's token"):
        await submit_again(spawner, REQUEST)  # type: ignore[arg-type]
    assert spawner.slurm.submitted == []
