"""A move of a session, step by step, with a spawner, a Slurm and servers that a test makes."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hub_database import HubDatabase
from stepping_clock import SteppingClock

from portal.errors import (
    Conflict,
    InvalidRequest,
    SlurmRefused,
    SlurmUnavailable,
    StartFailed,
)
from portal.launch.request import Asked
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState, Node
from portal.models.session.move import MoveState
from portal.sessions.ending import Ending
from spawners.lifecycle.commits import Commits
from spawners.resize import jobs_to_end, queueing, resize
from spawners.resize.resize import SessionResize

NOW = {"environment": "base", "gpus": 0, "account": "physics", "partition": "cpu"}


class Slurm:
    """The watcher: job 7 is the session's, job 8 the new one."""

    def __init__(self) -> None:
        self.jobs = {"7": self.job("7", JobState.RUNNING), "8": self.job("8", JobState.PENDING)}
        self.over: dict[str, Job] = {}
        self.away = False
        self.last: ClusterSnapshot | None = None

    def job(self, job_id: str, state: JobState) -> Job:
        nodes = ("gpu01",) if state is JobState.RUNNING else ()
        return Job(id=job_id, user="ada", state=state, nodes=nodes)

    def run(self) -> None:
        self.jobs["8"] = self.job("8", JobState.RUNNING)

    def end(self, job_id: str, state: JobState) -> None:
        del self.jobs[job_id]
        self.over[job_id] = Job(id=job_id, user="ada", state=state, exit_code=1)

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        await asyncio.sleep(0)
        if self.away:
            raise SlurmUnavailable("Slurm does not answer.")
        node = Node(name="gpu01", address="10.0.0.1", state="IDLE")
        self.last = ClusterSnapshot(taken_at=time.time(), jobs=self.jobs, nodes={"gpu01": node})
        return self.last

    async def ended_job(self, job_id: str) -> Job | None:
        return self.over.get(job_id)

    def position(self, job: Job, snapshot: ClusterSnapshot) -> int | None:
        return 3 if job.state is JobState.PENDING else None


class Spawner:
    """As much of PortalSpawner as a move needs."""

    serves = True

    def __init__(self) -> None:
        self.db = HubDatabase(note="Server at /user/ada/", scopes=["a", "b"])
        self.slurm = Slurm()
        self.user = SimpleNamespace(
            name="ada",
            db=self.db,
            new_api_token=self.new_token,
            settings={"proxy": SimpleNamespace(add_user=self.routed)},
        )
        self.shared = SimpleNamespace(cluster=self.slurm, commits=Commits())
        self.log, self._log_name, self.name, self.account = (
            logging.getLogger("test"),
            "ada",
            "",
            "ada",
        )
        self.token_id, self.job_id, self.server_address = 1, "7", "10.0.0.9"
        self.ready, self.pending = True, None
        self.last_options = dict(NOW)
        self.log_directory = ""
        self.watch_interval, self.server_timeout, self.http_timeout = 0.01, 30.0, 1
        self.move_patience, self.internal_ssl = 0, False
        self.server = SimpleNamespace(base_url="/user/ada/", url="http://10.0.0.9:5/user/ada/")
        self.watch = SimpleNamespace(job=None)
        self.history = SimpleNamespace(moved=lambda *what: self.done.append(("record", *what)))
        self.done: list[tuple[Any, ...]] = []
        self.stored: dict[str, Any] | None = None
        self.moving = SessionResize(self, self.history, self.wait_for_server)  # type: ignore[arg-type]

    def new_token(self, **about: Any) -> str:
        assert about["scopes"] == ["a", "b"]
        assert "expires_in" not in about, "it is good as long as its server runs"
        self.db.tokens[2] = SimpleNamespace(id=2, **about)
        return "secret"

    async def routed(self, user: Any, name: str) -> None:
        self.done.append(("route", name))

    async def store_state(self) -> None:
        self.write_state()

    def write_state(self) -> None:
        self.stored = self.moving.state()

    def become(self, successor: Any, token: str) -> None:
        self.done.append(("become", successor.job_id, token))
        self.job_id = successor.job_id

    def answers_at(self, address: str) -> None:
        self.done.append(("answers", address))

    def url_at(self, address: str, number: int) -> str:
        return f"http://{address}:{number}"

    async def wait_for_server(self) -> str:
        self.server_address = "10.0.0.1"
        return "http://10.0.0.1:9"

    async def end_job(self, watch: Any, *, gently: bool) -> None:
        if self.slurm.away:
            raise SlurmUnavailable("Slurm does not answer.")
        self.done.append(("end", watch.job_id, gently))


@pytest.fixture
def spawner(monkeypatch: pytest.MonkeyPatch) -> Spawner:
    """Whose world is quick and says yes."""

    async def launch_request(who: Any, options: Any, *, runs: bool) -> Any:
        Asked.parse(options)
        await asyncio.sleep(0)
        made.done.append(("judged", options))
        chosen = {"environment": "base", "gpus": 2, "partition": "gpu"}
        automatic = "partition" not in options
        return SimpleNamespace(options=lambda: chosen, partition_automatic=automatic)

    async def submit(who: Any, request: Any, log_name: str, token: str) -> str:
        await asyncio.sleep(0.01)  # sbatch takes its time, and others may ask meanwhile
        made.done.append(("submitted", token))
        return "8"

    async def make_log(directory: str, account: str) -> str:
        return "new.log"

    async def yes(*what: Any, **more: Any) -> Any:
        made.done.append(("answered" if more else "handed over", what[0 if more else 1]))

    made = Spawner()
    monkeypatch.setattr(resize, "launch_request", launch_request)
    monkeypatch.setattr(queueing, "submit", submit)
    monkeypatch.setattr(queueing, "make_log", make_log)
    monkeypatch.setattr(resize, "hand_over", yes)
    monkeypatch.setattr(resize, "wait_for_http_server", yes)
    monkeypatch.setattr(resize, "client_tls", lambda who: None)
    monkeypatch.setattr(resize.orm.APIToken, "find", lambda db, token: made.db.tokens[2])
    monkeypatch.setattr(jobs_to_end, "_AGAIN", 0.01)
    return made


async def until(check: Any) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.005)


def state(spawner: Spawner) -> MoveState | None:
    move = spawner.moving.shown()
    return move.state if move else None


async def test_from_the_queue_to_the_new_server(spawner: Spawner) -> None:
    begun = await spawner.moving.begin({"gpus": 2}, "ada")
    assert (begun.state, begun.job_id) == (MoveState.QUEUED, "8")
    assert spawner.moving.current and spawner.moving.current.partition_automatic
    # The environment and the account stay; a partition that was chosen by itself does not.
    assert spawner.done[0] == ("judged", {"account": "physics", "gpus": 2, "environment": "base"})
    await until(lambda: (m := spawner.moving.shown()) and m.position == 3)
    spawner.slurm.run()
    await until(lambda: state(spawner) is MoveState.STARTING)
    assert not spawner.moving.accept_port(1, 4000)  # the running session repeats its own
    assert spawner.moving.accept_port(2, 5000)
    await until(lambda: ("end", "7", True) in spawner.done)
    assert state(spawner) is MoveState.DONE
    steps = [step[0] for step in spawner.done]
    assert steps == [
        "judged", "submitted", "answered", "handed over", "record", "become", "answers", "route",
        "end",
    ]  # fmt: skip
    assert ("answered", "http://10.0.0.1:5000/user/ada/api") in spawner.done
    assert ("become", "8", "secret") in spawner.done
    assert "secret" not in str(spawner.stored)
    await until(lambda: not (spawner.stored or {}).get("leaves"))


async def test_two_at_once(spawner: Spawner) -> None:
    both = await asyncio.gather(
        spawner.moving.begin({"gpus": 2}, "ada"),
        spawner.moving.begin({"gpus": 1}, "ada"),
        return_exceptions=True,
    )
    assert [type(one) for one in both].count(Conflict) == 1
    with pytest.raises(Conflict, match="job 8 waits"):
        await spawner.moving.begin({"gpus": 1}, "ada")
    assert [step[0] for step in spawner.done].count("submitted") == 1


async def test_what_cannot_begin(spawner: Spawner, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match="environment"):
        await spawner.moving.begin({"environment": "other"}, "ada")
    with pytest.raises(InvalidRequest):
        await spawner.moving.begin({"prologue": "id"}, "ada")

    async def refused(*_: Any) -> str:
        raise SlurmRefused("sbatch said no")

    monkeypatch.setattr(queueing, "submit", refused)
    with pytest.raises(SlurmRefused):
        await spawner.moving.begin({"gpus": 2}, "ada")
    assert set(spawner.db.tokens) == {1}  # the new server's token is gone again
    spawner.ready = False
    with pytest.raises(Conflict, match="is not running"):
        await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.ready = True
    spawner.serves = False
    with pytest.raises(Conflict, match="A kernel's resources cannot be changed"):
        await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.serves = True
    spawner.db.tokens.clear()
    with pytest.raises(Conflict, match="token"):
        await spawner.moving.begin({"gpus": 2}, "ada")


@pytest.mark.parametrize("again", [False, True])
async def test_a_session_that_is_stopped_while_the_new_job_is_submitted(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    submitting, taken = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any) -> str:
        submitting.set()
        await taken.wait()
        return "8"

    monkeypatch.setattr(queueing, "submit", slow)
    beginning = asyncio.ensure_future(spawner.moving.begin({"gpus": 2}, "ada"))
    await submitting.wait()
    spawner.moving.forget()
    spawner.ready = again  # launched again at once, under the same name: another token
    spawner.token_id, spawner.job_id = (3, "9") if again else (0, "")
    taken.set()
    with pytest.raises(Conflict, match="stopped"):
        await beginning
    await until(lambda: any(step[:2] == ("end", "8") for step in spawner.done))
    assert set(spawner.db.tokens) == {1}  # the other job's server may ask for nothing
    assert spawner.moving.shown() is None


@pytest.mark.parametrize("why", ["cancelled", "silent", "no answer"])
async def test_a_new_job_that_comes_to_nothing(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    async def late(*_: Any, **__: Any) -> None:
        raise TimeoutError

    await spawner.moving.begin({"gpus": 2}, "ada")
    if why == "cancelled":
        spawner.slurm.end("8", JobState.CANCELLED)
    else:
        spawner.server_timeout = 0.02 if why == "silent" else 30
        monkeypatch.setattr(resize, "wait_for_http_server", late)
        if why == "no answer":
            spawner.moving.accept_port(2, 5000)
        # What the watcher took before does not count: the setting is read when it begins.
        spawner.moving._unfollow()
        spawner.moving._follow()
        spawner.slurm.run()
    await until(lambda: state(spawner) is MoveState.FAILED)
    move = spawner.moving.shown()
    assert move is not None
    assert move.words.endswith("The session continues unchanged.")
    await until(lambda: any(step[:2] == ("end", "8") for step in spawner.done))
    assert set(spawner.db.tokens) == {1}
    assert spawner.job_id == "7"
    assert not any(step[0] in ("become", "route", "record") for step in spawner.done)


async def test_called_off_while_slurm_is_away(spawner: Spawner) -> None:
    await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.slurm.away = True
    move = await spawner.moving.cancel("ada")
    assert move.words == "You cancelled the change of resources. The session continues unchanged."
    assert spawner.stored is not None
    assert spawner.stored["leaves"] == ["8"]  # the next Hub would end it too
    await asyncio.sleep(0.05)
    spawner.slurm.away = False
    await until(lambda: any(step[:2] == ("end", "8") for step in spawner.done))
    with pytest.raises(Conflict):
        await spawner.moving.cancel("ada")


@pytest.mark.parametrize("by", ["ada", "grace"])
async def test_it_is_too_late_to_call_it_off(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    saving = asyncio.Event()

    async def slow(*_: Any) -> None:
        await saving.wait()

    monkeypatch.setattr(resize, "hand_over", slow)
    await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.moving.accept_port(2, 5000)
    spawner.slurm.run()
    await until(lambda: state(spawner) is MoveState.READY)
    with pytest.raises(Conflict, match="too late"):
        await spawner.moving.cancel(by)
    # Its old job may end in these seconds: the new one takes its place all the same.
    assert spawner.moving.session_over(Ending(code="stopped", message="You stopped the session."))
    saving.set()
    await until(lambda: state(spawner) is MoveState.DONE)


@pytest.mark.parametrize("code", ["completed", "stopped", "cancelled"])
async def test_an_end_that_somebody_wanted_ends_the_move(spawner: Spawner, code: str) -> None:
    await spawner.moving.begin({"gpus": 2}, "ada")
    assert not spawner.moving.session_over(Ending(code=code, message="Over."))
    spawner.moving.forget()
    await until(lambda: any(step[:2] == ("end", "8") for step in spawner.done))
    assert set(spawner.db.tokens) == {1}
    assert spawner.moving.shown() is None


@pytest.mark.parametrize("code", ["walltime", "out_of_memory", "node_failure", "failed", "unknown"])
async def test_a_session_that_ends_too_early_is_followed_by_the_new_job(
    spawner: Spawner, code: str
) -> None:
    await spawner.moving.begin({"gpus": 2}, "ada")
    assert spawner.moving.session_over(Ending(code=code, message="It ended."))
    assert spawner.job_id == "8"
    await until(lambda: ("route", "") in spawner.done)
    assert ("answers", "10.0.0.1") in spawner.done
    assert state(spawner) is MoveState.DONE


async def test_a_move_that_was_stopped_leaves_the_next_session_alone(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    async def waits() -> str:
        await stopped.wait()
        raise StartFailed("The job was cancelled.")

    monkeypatch.setattr(spawner, "wait_for_server", waits)
    await spawner.moving.begin({"gpus": 2}, "ada")
    assert spawner.moving.session_over(Ending(code="walltime", message="It ended."))
    await asyncio.sleep(0.01)  # job 8 is the session, and still waits
    spawner.moving.forget()
    spawner.job_id = "9"  # launched again
    stopped.set()
    await asyncio.sleep(0.05)
    assert not any(step[0] == "end" for step in spawner.done)


async def test_a_session_that_is_being_stopped_is_followed_by_nothing(spawner: Spawner) -> None:
    await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.pending = "stop"  # type: ignore[assignment]
    assert not spawner.moving.session_over(Ending(code="walltime", message="It ended."))


async def test_the_next_hub_goes_on(spawner: Spawner) -> None:
    await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.moving.accept_port(2, 5000)
    await spawner.store_state()
    spawner.moving._unfollow()  # this Hub is gone

    after = SessionResize(spawner, spawner.history, spawner.wait_for_server)  # type: ignore[arg-type]
    spawner.moving = after
    spawner.pending = "check"  # type: ignore[assignment]
    after.load(spawner.stored)
    spawner.slurm.run()
    await until(lambda: ("answered", "http://10.0.0.1:5000/user/ada/api") in spawner.done)
    await asyncio.sleep(0.15)
    assert ("route", "") not in spawner.done  # the Hub still looks for its sessions itself
    spawner.pending = None
    await until(lambda: ("end", "7", True) in spawner.done)
    assert ("become", "8", "") in spawner.done  # of the token it has the hash only


async def test_a_session_that_ended_while_no_hub_was_there(spawner: Spawner) -> None:
    await spawner.moving.begin({"gpus": 2}, "ada")
    spawner.moving._say(MoveState.READY, "The new job is ready.")
    await spawner.store_state()
    spawner.moving._unfollow()

    after = SessionResize(spawner, spawner.history, spawner.wait_for_server)  # type: ignore[arg-type]
    spawner.moving = after
    after.load(spawner.stored)
    assert after.session_over(Ending(code="walltime", message="It ended."))
    assert spawner.job_id == "8"  # at once: the Hub would look for a server that is gone


async def test_the_next_hub_ends_the_old_job(spawner: Spawner) -> None:
    after = SessionResize(spawner, spawner.history, spawner.wait_for_server)  # type: ignore[arg-type]
    after.load({"successor": None, "leaves": ["6"]})
    await until(lambda: ("end", "6", False) in spawner.done)


@pytest.mark.parametrize("state", [None, {}, {"successor": {"state": "?"}}, {"leaves": []}])
async def test_a_state_without_a_move(spawner: Spawner, state: Any) -> None:
    one = SessionResize(spawner, spawner.history, spawner.wait_for_server)  # type: ignore[arg-type]
    one.load(state)
    assert one.shown() is None
    assert one.state() is None


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_a_move_goes_on_when_the_clock_is_set_and_is_told_for_its_minutes(
    spawner: Spawner, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock(monkeypatch)
    assert not spawner.moving.notified
    await spawner.moving.begin({"gpus": 2}, "ada")
    clock.step(step)
    assert spawner.moving.notified
    spawner.slurm.run()
    await until(lambda: state(spawner) is MoveState.STARTING)
    clock.step(-2 * step)
    spawner.moving.accept_port(2, 5000)
    await until(lambda: ("end", "7", True) in spawner.done)
    assert ("become", "8", "secret") in spawner.done
    clock.step(step)
    assert spawner.moving.notified
    spawner.moving._over_at -= 601
    assert not spawner.moving.notified
    # The next Hub has the row alone.
    await until(lambda: not (spawner.stored or {}).get("leaves"))
    after = SessionResize(spawner, spawner.history, spawner.wait_for_server)  # type: ignore[arg-type]
    clock.step(-step)
    after.load(spawner.stored)
    assert after.notified
    clock.step(step + 601)
    assert after.notified, "by the uptime from then on"
