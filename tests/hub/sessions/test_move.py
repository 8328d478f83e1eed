"""Other resources for a running session, on the real Hub and Slurm: a second job takes its place,
or nothing was lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import local_hosts
import pytest
from hub_client import Person, wait_until
from jobs import job_state, living_jobs, no_free_t4, only_job
from processes import variables_of
from remembered import closed, database, of_job
from terminal import terminal

from portal.models.session.session import SessionState

API = "/services/portal/api/v1/"
SMALL = {"cpus": 1, "memory": "1G", "time": "0:30:00"}
TWO_GPUS = {**SMALL, "gpus": 2, "gpu_type": "v100"}
T4 = {**SMALL, "gpus": 2, "gpu_type": "t4"}

_KILL_SERVICE = """
import glob, os, signal, sys
for name in glob.glob("/proc/[0-9]*/environ"):
    try:
        data = open(name, "rb").read().split(b"\\0")
    except OSError:
        continue
    if b"JUPYTERHUB_SERVICE_NAME=portal" in data and b"JUPYTERHUB_API_URL=" + sys.argv[1].encode() in b"\\n".join(data):
        os.kill(int(name.split("/")[2]), signal.SIGKILL)
        print("killed")
"""  # noqa: E501


def ask(someone: Person, method: str, path: str, body: Any = None) -> httpx.Response:
    """A call of the portal's API with this person's token."""
    if not someone.token:
        someone.api("GET", "/user")
    headers = {"Authorization": f"token {someone.token}"}
    return httpx.request(method, someone.url + API + path, headers=headers, json=body, timeout=60)


class Moving:
    """Ada's session, and what can be asked of it."""

    def __init__(self, demo: Any, ada: Person) -> None:
        self.demo, self.ada = demo, ada

    @property
    def job_id(self) -> str:
        """Of the job whose server answers at the session's address; "" where none does."""
        answer = self.ada.session("GET", "portal/handover")
        return str(answer.json()["job_id"]) if answer.status_code == 200 else ""

    def session(self) -> str:
        """The id of the session whose job it is, once the portal knows it."""
        job_id = wait_until("its server answers", lambda: self.job_id)
        record = of_job(database(self.demo), "ada", job_id)
        return str(
            wait_until(
                "the portal shows it as running",
                lambda: (
                    (answer := ask(self.ada, "GET", f"sessions/{record.id}")).status_code == 200
                    and answer.json()["state"] == "running"
                    and record.id
                ),
            )
        )

    def begin(self, body: Any, session: str = "") -> httpx.Response:
        return ask(self.ada, "POST", f"sessions/{session or self.session()}/move", body)

    def started(self, body: Any) -> tuple[str, str]:
        """A move that began: the session's id, and the new job's."""
        session = self.session()
        answer = self.begin(body, session)
        assert answer.status_code == 202, answer.text
        assert answer.json()["state"] == "queued"
        return session, str(answer.json()["job_id"])

    def state(self, session: str) -> dict[str, Any]:
        answer = ask(self.ada, "GET", f"sessions/{session}/move")
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["move"] or {})

    def until(self, session: str, *states: str) -> dict[str, Any]:
        return dict(
            wait_until(
                f"the move is {' or '.join(states)}",
                lambda: (move := self.state(session)).get("state") in states and move,
            )
        )

    def arrived(self, job_id: str) -> None:
        wait_until(f"job {job_id} is the session", lambda: self.job_id == job_id, 240)


@pytest.fixture(scope="module")
def ada(person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada, with one session for all tests of this file."""
    someone = person("ada")
    someone.stop()
    yield someone
    someone.stop()


@pytest.fixture
def moving(demo: Any, ada: Person) -> Moving:
    """Ada's session on CPUs, launched where the test before left none or another."""
    if any("gpu" in row.gres for row in living_jobs(demo, "ada")):
        ada.stop()
    if not ada.server().get("ready"):
        answer = ada.launch({"environment": "python-venv", **SMALL})
        assert answer.status_code in (201, 202), answer.text
        ada.wait_ready()
    return Moving(demo, ada)


@pytest.fixture
def full(demo: Any) -> Iterator[Callable[[], None]]:
    """All t4 are taken by somebody else; calling it gives them back."""
    with no_free_t4(demo) as give_back:
        yield give_back


def tokens_of(demo: Any) -> dict[str, str]:
    """The tokens of Ada's servers, by their jobs."""
    names = ("SLURM_JOB_ID", "JUPYTERHUB_API_TOKEN")
    return {job: token for job, token in variables_of(demo, "ada", *names) if job and token}


def open_terminal(ada: Person, directory: str) -> str:
    """A terminal of the session with this working directory; its name."""
    made = ada.session("POST", "api/terminals", json={"cwd": directory})
    assert made.status_code == 200, made.text
    return str(made.json()["name"])


def directory_of(ada: Person, name: str) -> str:
    """Where a terminal's shell is, by the server's own word."""
    answer = ada.session("POST", "portal/handover", json={"seconds": 0})
    assert answer.status_code == 200, answer.text
    return {one["name"]: one["cwd"] for one in answer.json()["terminals"]}.get(name, "")


def test_from_cpus_to_two_gpus_and_back(demo: Any, moving: Moving, person: Any) -> None:
    ada, before = moving.ada, moving.job_id
    home = terminal(ada, "mkdir -p thesis/data; pwd; echo none: $CUDA_VISIBLE_DEVICES").split()
    assert home[1:] == ["none:"]
    name = open_terminal(ada, "thesis/data")
    wait_until("the shell is there", lambda: directory_of(ada, name).endswith("thesis/data"))
    old_token = tokens_of(demo)[before]
    address = ada.server()["url"]

    session, job_id = moving.started(TWO_GPUS)
    moving.arrived(job_id)

    assert ada.server()["url"] == address
    assert directory_of(ada, name) == f"{home[0]}/thesis/data"
    assert terminal(ada, "echo $CUDA_VISIBLE_DEVICES").strip() == "0,1"
    wait_until("the old job is over", lambda: not job_state(demo, before))
    assert [row.id for row in living_jobs(demo, "ada")] == [job_id]
    # A browser logs in at the new server: it is the same OAuth client with the new token.
    page = ada.http.get("/user/ada/lab")
    assert (page.status_code, str(page.url).split("?")[0]) == (200, f"{ada.session_url()}lab")
    gone = httpx.get(
        f"{ada.url}/hub/api/user", headers={"Authorization": f"token {old_token}"}, timeout=120
    )
    assert gone.status_code == 403

    old = closed(database(demo), "ada", before)
    assert (old.id, old.ending_code, old.stopped_by) == (session, "moved", "")
    assert (
        old.ending_message
        == f"Switched to job {job_id}: 2 \N{MULTIPLICATION SIGN} V100, 1 CPU, 1 GB, 30 min."
    )
    new = of_job(database(demo), "ada", job_id)
    assert new.id != session
    assert new.state is SessionState.RUNNING
    assert (new.options["gpus"], new.environment) == (2, "python-venv")
    assert new.nodes[0].startswith("gpu")
    assert new.ready_at is not None
    log = ask(person("grace"), "GET", f"audit?action=move-session&target=session+{session}")
    (line,) = log.json()["items"]
    assert (line["actor"], line["outcome"]) == ("ada", "done")
    assert job_id in line["detail"]

    _, back = moving.started({**SMALL, "gpus": 0})
    moving.arrived(back)
    assert directory_of(ada, name) == f"{home[0]}/thesis/data"
    assert terminal(ada, "echo none: $CUDA_VISIBLE_DEVICES").strip() == "none:"
    moving.until(moving.session(), "done")
    terminal(ada, "rm -r thesis")


def test_two_at_once_and_calling_it_off(demo: Any, moving: Moving, full: Any) -> None:
    before = moving.job_id
    session, job_id = moving.started(T4)
    waiting = wait_until(
        "the page says why it waits",
        lambda: "waiting" in (move := moving.state(session))["words"] and move,
    )
    assert waiting["words"].endswith("The session continues.")
    again = moving.begin(TWO_GPUS, session)
    assert again.status_code == 409
    assert "already being changed" in again.json()["error"]["message"]
    assert len(living_jobs(demo, "ada")) == 2
    # The session itself knows of it too.
    told = wait_until(
        "the session is told",
        lambda: (
            (m := moving.ada.session("GET", "portal/situation").json().get("situation") or {})
            and (m.get("move") or {}).get("job_id") == job_id
        ),
    )
    assert told
    off = ask(moving.ada, "DELETE", f"sessions/{session}/move")
    assert off.status_code == 200, off.text
    assert off.json()["state"] == "cancelled"
    assert "You cancelled" in off.json()["words"]
    wait_until("its job is cancelled", lambda: not job_state(demo, job_id))
    assert moving.job_id == before
    assert ask(moving.ada, "DELETE", f"sessions/{session}/move").status_code == 409


def test_a_new_job_that_is_cancelled_leaves_the_session_as_it_was(
    demo: Any, moving: Moving, full: Any
) -> None:
    before = moving.job_id
    session, job_id = moving.started(T4)
    demo.run(["scancel", job_id], user=demo.user("ada"))
    failed = moving.until(session, "failed")
    assert "The session continues unchanged." in failed["words"]
    assert moving.job_id == before
    assert only_job(demo, "ada") == before
    assert moving.ada.session("GET", "api/status").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"gpus": 99}, 403, "at most 4 GPUs"),
        ({"gpus": "2"}, 400, "gpus"),
        ({"gpus": -1}, 400, "gpus"),
        ({"time": "0:00:00"}, 400, "time"),
        ({"partition": "--wrap=id"}, 400, "partition"),
        ({"environment": "jupyterlab"}, 400, "environment"),
        ({"exec_prefix": "id"}, 400, "exec_prefix"),
        ([], 400, ""),
        ("x" * 5000, 400, ""),
    ],
)
def test_hostile_bodies(demo: Any, moving: Moving, body: Any, status: int, words: str) -> None:
    answer = moving.begin(body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]["message"]
    assert len(living_jobs(demo, "ada")) == 1


def test_anothers_session_and_the_hubs_own_route(moving: Moving, person: Any) -> None:
    session, barbara, grace = moving.session(), person("barbara"), person("grace")
    for method, body in (("GET", None), ("POST", TWO_GPUS), ("DELETE", None)):
        assert ask(barbara, method, f"sessions/{session}/move", body).status_code == 404
    assert ask(grace, "POST", f"sessions/{session}/move", TWO_GPUS).status_code == 403
    log = ask(grace, "GET", f"audit?target=session+{session}&outcome=refused").json()["items"]
    assert {"barbara", "grace"} <= {line["actor"] for line in log}
    for someone in (moving.ada, grace):  # only the service may
        for path in ("/portal/moves", "/portal/moves/ada/"):
            assert someone.api("GET", path).status_code == 403
        assert someone.api("POST", "/portal/moves/ada/", TWO_GPUS).status_code == 403


def test_what_the_sessions_own_server_refuses(demo: Any, moving: Moving, person: Any) -> None:
    ada = moving.ada
    for method, path, body in [
        ("POST", "portal/handover", {"seconds": 1e9}),
        ("POST", "portal/handover", {"seconds": "1"}),
        ("POST", "portal/handover", [1]),
        ("PUT", "portal/handover", {"terminals": "1"}),
        ("PUT", "portal/handover", {"terminals": ["x" * 70000]}),
        ("POST", "portal/handover/page", {"page": "../<b>"}),
    ]:
        answer = ada.session(method, path, json=body)
        assert answer.status_code == 400, (path, body, answer.text)
    barbara = person("barbara")
    barbara.api("GET", "/user")  # makes her token
    for method in ("GET", "POST", "PUT"):
        answer = local_hosts.request(
            method,
            f"{ada.session_url()}portal/handover",
            headers={"Authorization": f"token {barbara.token}"},
            json={"seconds": 0, "terminals": []},
        )
        assert answer.status_code == 403
    # Of two servers of one session, only the one whose job is the session's is told how it stands.
    own = tokens_of(demo)[moving.job_id]
    for job_id, status in ((moving.job_id, 200), ("999999", 503)):
        answer = httpx.get(
            ada.url + API + "session",
            headers={"Authorization": f"token {own}", "X-Portal-Job": job_id},
            timeout=120,
        )
        assert answer.status_code == status, answer.text


def test_a_move_outlives_the_service_and_the_hub(demo: Any, moving: Moving, full: Any) -> None:
    before = moving.job_id
    session, job_id = moving.started(T4)
    killed = demo.run(
        ["/usr/bin/python3", "-c", _KILL_SERVICE, demo.words["hub_url"]], user=demo.user("portal")
    )
    assert "killed" in killed.stdout

    def shown() -> Any:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            answer = ask(moving.ada, "GET", f"sessions/{session}/move")
            return answer.status_code == 200 and answer.json()["move"]
        return None

    assert wait_until("the new service shows it", shown)["state"] == "queued"
    demo.control("kill", "hub")
    assert job_state(demo, before) == "RUNNING"
    full()
    wait_until("the new job starts meanwhile", lambda: job_state(demo, job_id) == "RUNNING")
    demo.control("start", "hub")

    def answers() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{demo.url}/hub/api/", timeout=5).status_code == 200
        return False

    wait_until("the Hub is back", answers)
    moving.arrived(job_id)
    wait_until("the old job is over", lambda: not job_state(demo, before))
    assert terminal(moving.ada, "echo $CUDA_VISIBLE_DEVICES").strip()
    # What the new Hub knows of it is enough to stop it and to leave nothing behind.
    page = moving.ada.http.get("/user/ada/lab")
    assert page.status_code == 200


def test_the_session_that_ends_too_early_is_followed_by_the_new_job(
    demo: Any, moving: Moving, full: Any
) -> None:
    before = moving.job_id
    session, job_id = moving.started(T4)
    terminal(moving.ada, "kill -9 $PPID", wait=False)
    old = closed(database(demo), "ada", before)
    assert (old.id, old.ending_code) == (session, "failed")
    # The Hub has seen it too, and has not ended the session.
    wait_until("it is the session", lambda: of_job(database(demo), "ada", job_id))
    assert job_state(demo, job_id) == "PENDING"
    assert moving.ada.server()["ready"]
    full()
    moving.arrived(job_id)
    assert of_job(database(demo), "ada", job_id).state is SessionState.RUNNING


def test_stopping_the_session_ends_the_job_that_waits(demo: Any, moving: Moving, full: Any) -> None:
    _, job_id = moving.started(T4)
    moving.ada.stop()
    wait_until("nothing is left", lambda: not living_jobs(demo, "ada"))
    assert not job_state(demo, job_id)
