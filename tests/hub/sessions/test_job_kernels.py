"""A notebook's kernel in a job of its own, on the real demo: requested with the session's token."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import living_jobs, nothing_left, squeue
from processes import variables_of
from terminal import session_token

API = "/services/portal/api/v1/"
ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "kernel-5e2f3c1a0b7d4c8e9a6f"
BODY = {
    "id": ID,
    "kernel": "python3",
    "environment": "python-venv",
    "gpus": 1,
    "cpus": 1,
    "memory": "1G",
    "time": "0:20:00",
}
COURSE = "course-dl101"


class Session(NamedTuple):
    """A running session without GPUs, with the token that its server holds."""

    owner: Person
    token: str

    def ask(self, method: str, path: str = "", body: Any = None, token: str = "") -> httpx.Response:
        return httpx.request(
            method,
            f"{self.owner.url}{API}session/kernels{path}",
            headers={"Authorization": f"token {token or self.token}"},
            json=body,
            timeout=60,
        )

    def kernel(self, id_: str = ID) -> dict[str, Any]:
        answer = self.ask("GET", f"/{id_}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait_for(self, state: str, id_: str = ID) -> dict[str, Any]:
        def look() -> Any:
            found = self.kernel(id_)
            return found if found["state"] == state else None

        return dict(wait_until(f"the kernel is {state}", look))


def said(answer: httpx.Response) -> str:
    found = answer.json()
    return str(found["error"]["message"] if "error" in found else found["message"])


@pytest.fixture(scope="module")
def session(demo: Any, person: Callable[[str], Person]) -> Iterator[Session]:
    """Ada's, for all tests here."""
    nothing_left(demo, "ada")
    options = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
    for ada in with_session(person("ada"), options):
        found = Session(ada, session_token(ada))
        wait_until("the portal knows it", lambda found=found: found.ask("GET").status_code == 200)
        yield found
    ada.stop(SERVER)


@pytest.fixture
def kernel(demo: Any, session: Session) -> Iterator[dict[str, Any]]:
    """A kernel that runs: its state."""
    answer = session.ask("POST", "", BODY)
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"id": ID, "server": SERVER}
    assert session.kernel()["state"] in ("waiting", "running"), "it is known at once"
    yield session.wait_for("running")
    session.ask("DELETE", f"/{ID}")
    session.wait_for("ended")
    wait_until("its job is over", lambda: len(living_jobs(demo, "ada")) == 1)


def test_the_session_learns_what_there_is(session: Session) -> None:
    found = session.ask("GET").json()
    items = {item["environment"]: item for item in found["items"]}
    assert "python-venv" not in items, "it was tested without GPUs only"
    lab = items["jupyterlab"]
    assert "python3" in {kernel["name"] for kernel in lab["kernels"]}
    types = next(field["values"] for field in found["fields"] if field["name"] == "gpu_type")
    assert lab["gpu_types"] and set(lab["gpu_types"]) <= set(types)
    assert found["per_user"] == 8
    wait_until("its node is known", lambda: session.ask("GET").json()["address"])


def test_a_kernel_is_a_job_of_its_own(demo: Any, session: Session, kernel: dict[str, Any]) -> None:
    ada, job_id = session.owner, kernel["job_id"]
    jobs = {job.id: job for job in living_jobs(demo, "ada")}
    assert len(jobs) == 2 and "gpu" in jobs[job_id].gres
    assert kernel["node"] == jobs[job_id].node and kernel["node"] in kernel["message"]
    told = {row for row in variables_of(demo, "ada", "PORTAL_KERNEL") if row[0]}
    assert told == {(f'{{"id": "{ID}", "name": "python3"}}',)}
    # To the Hub it is a server that is ready; nothing leads to its node.
    server = ada.wait_ready(SERVER)
    assert server["user_options"]["kernel"] == {"id": ID, "name": "python3"}
    assert ada.session("GET", "api", SERVER).status_code == 404
    # It is one of the person's sessions, without a page.
    if not ada.token:
        ada.api("GET", "/user")
    headers = {"Authorization": f"token {ada.token}"}

    def own(path: str, method: str = "GET", **more: Any) -> httpx.Response:
        return httpx.request(method, f"{ada.url}{API}{path}", headers=headers, timeout=60, **more)

    items = {item["job_id"]: item for item in own("sessions?ended=false").json()["items"]}
    item = items[job_id]
    assert item["environment_title"] == "Kernel of Python (virtual environment)"
    assert set(item["links"].values()) == {None} and not item["has_page"]
    assert SERVER not in str(own("servers").json())
    for path, body in (("open", {}), ("move", {"gpus": 2})):
        answer = own(f"sessions/{item['id']}/{path}", "POST", json=body)
        assert answer.status_code == 409, answer.text
    assert own(f"sessions/{item['id']}/extend", "POST", json={"minutes": 30}).status_code == 200
    # There is one of this id only.
    again = session.ask("POST", "", BODY)
    assert again.status_code == 409, again.text


def test_the_pages_of_admins_have_it(demo: Any, session: Session, kernel: dict[str, Any]) -> None:
    """The cluster page's job and GPU, and the audit log."""
    job_id, node = kernel["job_id"], kernel["node"]
    with Caller(demo.url, "grace") as grace:

        def job() -> Any:
            """Return the job once the view has its GPU and its session, which it hears of apart."""
            item = grace.get(f"jobs/{job_id}").json()
            return item.get("gpu_indexes") and item["portal"] and dict(item)

        seen = wait_until("the job holds its GPU", job, 60)
        assert (seen["portal"], seen["user"], seen["environment"]) == (True, "ada", "python-venv")
        (index,) = seen["gpu_indexes"][node]

        def gpu() -> Any:
            gpus = {(item["node"], item["index"]): item for item in grace.items("gpus")}
            return gpus[node, index]["source"] and gpus[node, index]

        reading = wait_until("telemetry has read its GPU", gpu)
        assert (reading["user"], reading["job_id"]) == ("ada", job_id)
        assert reading["source"] == "simulated"
        (record,) = [
            item for item in grace.items("sessions", user="ada") if item["job_id"] == job_id
        ]
        assert (record["id"], record["user"]) == (seen["session_id"], "ada")
        lines = grace.get("audit?action=start-kernel").json()["items"]
        line = next(item for item in lines if item["outcome"] == "done")
        assert (line["actor"], line["owner"]) == ("ada", "ada")
        assert line["target"].startswith("session ")
        assert line["detail"] == f"Kernel python3 of python-venv, {SERVER}."
        # An admin can end it, as any session.
        assert grace.post(f"jobs/{job_id}/cancel", json={}).status_code == 200
        ended = session.wait_for("ended")
        assert ended["message"] == "An administrator (grace) stopped the kernel.", ended
        lines = grace.get("audit?action=stop-session").json()["items"]
        assert (lines[0]["actor"], lines[0]["owner"]) == ("grace", "ada")
        assert lines[0]["target"] == f"session {record['id']}"


def test_a_kernel_is_stopped(demo: Any, session: Session, kernel: dict[str, Any]) -> None:
    assert session.ask("DELETE", f"/{ID}").status_code == 200
    over = session.wait_for("ended")
    assert (over["job_id"], over["log"]) == (kernel["job_id"], "")
    assert over["message"] == "You stopped the kernel."
    state = squeue(demo, "--job", kernel["job_id"], "--format=%T")
    assert state.strip() in ("", "COMPLETING", "COMPLETED")
    assert session.ask("DELETE", f"/{ID}").status_code == 200, "it is over already"
    # The same id again is another job.
    assert session.ask("POST", "", BODY).status_code == 202
    assert session.wait_for("running")["job_id"] != kernel["job_id"]


def test_what_has_ended_leaves_no_server(session: Session, kernel: dict[str, Any]) -> None:
    """The next kernel's launch removes it."""
    session.ask("DELETE", f"/{ID}")
    session.wait_for("ended")
    other = "0123456789abcdef"
    assert session.ask("POST", "", {**BODY, "id": other}).status_code == 202
    session.wait_for("running", other)
    user = session.owner.api("GET", "/users/ada?include_stopped_servers=1").json()
    names = {name for name in user["servers"] if name.startswith("kernel-")}
    assert names == {f"kernel-{other}"}
    assert session.ask("DELETE", f"/{other}").status_code == 200
    session.wait_for("ended", other)
    assert session.kernel()["state"] == "ended", "its record stays"


def test_a_restarted_hub_takes_it_up_again(
    demo: Any, session: Session, kernel: dict[str, Any]
) -> None:
    demo.control("kill", "hub")
    demo.control("start", "hub")

    def answers() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{demo.url}/hub/api/", timeout=5).status_code == 200
        return False

    wait_until("the Hub is back", answers)
    session.owner.wait_ready(SERVER)
    wait_until("the service is back", lambda: session.ask("GET").status_code == 200)
    assert session.wait_for("running")["job_id"] == kernel["job_id"]
    assert session.owner.session("GET", "api", SERVER).status_code == 404


def test_a_kernel_has_no_kernels(demo: Any, session: Session, kernel: dict[str, Any]) -> None:
    tokens = variables_of(demo, "ada", "PORTAL_KERNEL", "JUPYTERHUB_API_TOKEN")
    ((token),) = {token for of_kernel, token in tokens if of_kernel and token}
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", {**BODY, "id": "0123456789abcdef"}),
        ("DELETE", f"/{ID}", None),
    ):
        answer = session.ask(method, path, body, token)
        assert answer.status_code == 403, answer.text
        assert "not offered in a kernel in a job of its own" in said(answer)
    assert session.kernel()["state"] == "running"


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"id": "../../etc/passwd"}, 400),
        ({"id": "1234567"}, 400),
        ({"id": "0" * 41}, 400),
        ({"id": ["12345678"]}, 400),
        ({"kernel": "$(id)"}, 400),
        ({"kernel": "a" * 101}, 400),
        ({"environment": "no-such"}, 403),
        ({"gpus": 4000}, 403),
        ({"gpu_type": "no-such"}, 403),
        ({"partition": "no-such"}, 400),
        ({"course": "dl101"}, 400),
        ({"tensorboard": ["~"]}, 400),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_hostile_requests_start_nothing(
    demo: Any, session: Session, wrong: dict[str, Any], status: int
) -> None:
    answer = session.ask("POST", "", {**BODY, **wrong})
    assert answer.status_code == status, answer.text
    assert said(answer)
    assert len(living_jobs(demo, "ada")) == 1


def test_names_are_reserved(demo: Any, session: Session) -> None:
    ada = session.owner
    answer = ada.launch({"environment": "python-venv"}, SERVER)
    assert answer.status_code == 400, answer.text
    assert "reserved for a kernel in a job of its own" in answer.json()["message"]
    options = {"environment": "python-venv", "kernel": {"id": ID, "name": "python3"}}
    for server in ("second", "kernel-0123456789abcdef"):
        answer = ada.launch(options, server)
        assert answer.status_code == 400, answer.text
        assert f"must have the name '{SERVER}'" in answer.json()["message"]
    ada.api("DELETE", ada.server_path("second"), {"remove": True})
    assert len(living_jobs(demo, "ada")) == 1


def test_other_tokens_are_refused(
    session: Session, person: Callable[[str], Person], kernel: dict[str, Any]
) -> None:
    for name in ("ada", "barbara", "grace"):
        someone = person(name)
        someone.api("GET", "/user")
        for method, path, body in (
            ("GET", "", None),
            ("POST", "", BODY),
            ("GET", f"/{ID}", None),
            ("DELETE", f"/{ID}", None),
        ):
            answer = session.ask(method, path, body, someone.token)
            assert answer.status_code == 403, (name, method, path)
    assert session.kernel()["state"] == "running"


def test_a_session_of_a_course_without_them_has_none(demo: Any, session: Session) -> None:
    student = Person(demo.url, "student06")
    student.api("GET", "/user")
    student.stop(COURSE)
    answer = student.launch({"course": "dl101"}, COURSE)
    assert answer.status_code in (201, 202), answer.text
    student.wait_ready(COURSE)
    try:
        token = session_token(student, COURSE)
        wait_until(
            "the portal knows it",
            lambda: session.ask("GET", "", None, token).status_code != 503,
        )
        for method, body in (("GET", None), ("POST", BODY)):
            answer = session.ask(method, "", body, token)
            assert answer.status_code == 403, answer.text
            assert "does not allow kernels in jobs of their own" in said(answer)
    finally:
        student.stop(COURSE)


def test_its_gpu_time_is_its_owner_s(session: Session) -> None:
    """The service writes it once a minute; kernels of the tests before have ended since then."""
    ada = session.owner
    headers = {"Authorization": f"token {ada.token}"}

    def accounted() -> list[float]:
        address = f"{ada.url}{API}sessions?ended=true"
        items = httpx.get(address, headers=headers, timeout=60).json()["items"]
        kernels = [item["efficiency"] for item in items if not item["has_page"]]
        return [hours for kernel in kernels if (hours := kernel["gpu_hours_held"])]

    wait_until("a kernel has held a GPU", accounted)
