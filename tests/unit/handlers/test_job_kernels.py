"""Kernels in jobs of their own, requested by a session with its token: who may, and what is said.
On a real Slurm: tests/hub/sessions/test_job_kernels.py."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import gpu_node, snapshot
from fake_hub import FakeHub
from session_endpoints import catalog_of, of_server, parts_on, person, said, served
from session_records import recorded
from stored_courses import a_course, stored
from toy_field import TOY, add_toy

from portal.assembly import Services
from portal.catalog.availability import Offer
from portal.errors import Conflict, NotAllowed
from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import WorkState
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    Job,
    JobState,
    Partition,
)
from portal.models.cluster.dashboard import JobItem
from portal.models.session.estimate import Outlook, StartAnswer
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.kernel import endpoints as job_kernels
from portal.work.kernel.endpoints import NewJobKernel
from portal.work.kernel.settings import JobKernels

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "kernel-5e2f3c1a0b7d4c8e9a6f"
BODY = {"id": ID, "kernel": "python3", "environment": "torch", "gpus": 1, "memory": "8G"}
PYTHON = {"name": "python3", "title": "Python 3", "language": "python"}
TORCH = Environment(
    name="torch",
    title="PyTorch",
    kind="venv",
    path="/opt/torch",
    kernels=(PYTHON,),
    max_gpus=2,
    groups=("research",),
)
RLANG = Environment(name="r", title="R", kind="venv", path="/opt/r")
TEACHING = Environment(
    name="teaching",
    title="Teaching",
    kind="container",
    image="/i/teaching.sif",
    kernels=(PYTHON,),
)
DEEP = a_course(
    environment="teaching",
    default={"cpus": 1, "time": "1:00:00"},
    largest={"gpus": 1, "memory": "8G"},
    account="dl101",
    begins="2020-01-01",
    ends="2021-01-01",
)
CPUS = Environment(name="cpus", title="CPUs", kind="venv", path="/opt/cpus", kernels=(PYTHON,))
TOKENS = {
    "session": of_server("ada"),
    "second": of_server("ada", "second"),
    "course": of_server("ada", "course-deep"),
    "room": of_server("ada", "room-deep"),
    "rehearsal": of_server("ada", "rehearsal-deep"),
    "preview": of_server("ada", "preview-deep"),
    "tensorboard": of_server("ada", "tensorboard"),
    "marimo": of_server("ada", "marimo"),
    "kernel": of_server("ada", SERVER),
    "barbaras-session": of_server("barbara"),
    "ada": person("ada"),
}


def a_record(id: str, server: str = "", user: str = "ada", **more: Any) -> SessionRecord:
    values = {
        "job_id": f"1{id}",
        "state": SessionState.RUNNING,
        "groups": ("research",),
        "nodes": ("cpu01",),
        "submitted_at": time.time(),
        **more,
    }
    return recorded(id=id, user=user, server=server, **values)


RECORDS = (
    a_record("1", options={"environment": "torch", "gpus": 0, "account": "physics"}),
    a_record("2", "second"),
    a_record("3", "course-deep", options={"course": "deep"}, space="deep"),
    a_record("4", "tensorboard", options={"tensorboard": ["/runs"]}),
    a_record("5", "marimo", options={"kind": "marimo"}),
    a_record("6", user="barbara"),
    *(
        a_record(f"{number}", f"{kind}-deep", options={"course": "deep"}, space="deep")
        for number, kind in enumerate(("room", "rehearsal", "preview"), 20)
    ),
)


class Cluster:
    """The service's view of the cluster."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionRecord] = {}
        self.jobs: dict[str, JobItem] = {}
        self.asked = 0
        for record in RECORDS:
            self.see(record)

    def see(self, record: SessionRecord, **job: Any) -> None:
        self.sessions[record.job_id] = record
        values = {"state": "RUNNING", "words": "running", "nodes": ("gpu01",), **job}
        self.jobs[record.job_id] = JobItem(id=record.job_id, **values)

    @property
    def view(self) -> Any:
        jobs = [
            Job(id=job_id, user=record.user, state=JobState.RUNNING)
            for job_id, record in self.sessions.items()
        ]
        nodes = gpu_node("gpu01", "v100", 4), gpu_node("gpu02", "t4", 2), gpu_node("cpu01")
        cluster: ClusterSnapshot = snapshot(*nodes, *jobs)
        return SimpleNamespace(sessions=self.sessions, jobs=self.jobs, snapshot=cluster)

    async def refreshed(self) -> None:
        self.asked += 1


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts
        self.cluster: Any = parts.dashboard
        self.hub: Any = parts.hub

    async def ask(
        self, method: str, path: str = "", body: Any = None, token: str = "session"
    ) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        at = f"session/kernels{path}"
        return await self.client.request(method, at, content=content, headers=headers)

    async def audit(self) -> list[tuple[str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find()
        return [(e.actor, e.action, e.target, str(e.outcome)) for e in entries]


async def passed_on_v100(environment: Environment) -> Offer:
    return Offer(environment.model_copy(update={"gpu_types": ("v100",)}))


async def teach(site: Site, **changes: Any) -> None:
    """Add the course, as its instructor and an admin have made it."""
    course = DEEP.model_copy(update={"job_kernels": True, **changes})
    await site.parts.store.courses.add_space(stored(course, pinned=TEACHING))


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.sessions.save(*RECORDS)
    verdicts = {
        environment.fingerprint: {
            name: Verdict(
                fingerprint=environment.fingerprint,
                gpu_type=name,
                passed=passed,
                message="",
                at=1.0,
            )
            for name, passed in tests.items()
        }
        for environment, tests in (
            (TORCH, {"": True, "v100": True, "t4": False, "a100": True}),
            (RLANG, {"": True, "t4": True}),
            (CPUS, {"": True}),
            (TEACHING, {"": True, "v100": True, "t4": True}),
        )
    }
    catalog = catalog_of(TORCH, RLANG, CPUS)
    catalog.visible_to = lambda someone: [
        environment
        for environment in catalog.environments.values()
        if not environment.groups or set(environment.groups) & set(someone.groups)
    ]

    def passed(known: Environment, there: Any) -> list[str]:
        tests = verdicts[known.fingerprint]
        return [name for name in sorted(there) if name in tests and tests[name].passed]

    catalog.offering = SimpleNamespace(gpu_types=passed, offer_for=passed_on_v100)
    telemetry = SimpleNamespace(simulated=True)
    parts = parts_on(
        store,
        dashboard=Cluster(),
        hub=FakeHub(running={("ada", SERVER): ""}),
        catalog=catalog,
        telemetry=telemetry,
    )
    async with served(job_kernels.ENDPOINTS, parts, TOKENS.get) as client:
        yield Site(client, parts)


# -- what there is ---------------------------------------------------------------------------------


async def test_the_environments_whose_tests_passed_on_gpus_that_are_here(site: Site) -> None:
    answer = await site.ask("GET")
    assert answer.status_code == 200, answer.text
    (torch,) = answer.json()["items"]
    assert torch.pop("default")["gpus"] == 0
    assert torch == {
        "environment": "torch",
        "title": "PyTorch",
        "kernels": [PYTHON],
        "gpu_types": ["v100"],
        "max_gpus": 2,
    }
    fields = {field["name"]: field for field in answer.json()["fields"]}
    assert fields["gpu_type"]["values"] == ["t4", "v100"] and "partition" not in fields
    assert (answer.json()["per_user"], answer.json()["address"]) == (8, "cpu01")
    assert answer.json()["simulated"] is True


async def test_the_options_of_a_kernel_are_those_of_the_table(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(answer: Any) -> tuple[dict[str, str], set[str]]:
        found = answer.json()
        return found["options"], {field["name"] for field in found["fields"]}

    before, shown = known(await site.ask("GET"))
    assert {"gpus": "GPUs", "qos": "", "nodes": "nodes"}.items() <= before.items()
    add_toy(monkeypatch)
    after, shown_now = known(await site.ask("GET"))
    assert after == {**before, TOY.name: ""}
    assert shown_now == {*shown, TOY.name}


async def test_kernels_that_only_a_test_has_found(site: Site) -> None:
    result = {
        "server": "inside",
        "server_seconds": 1.0,
        "gpu_type": "t4",
        "kernels": [
            {"kernel": {"name": "ir", "title": "R 4", "language": "R"}, "passed": True},
            {"kernel": {"name": "broken", "title": "B", "language": "b"}, "passed": False},
        ],
    }
    tests = site.parts.store.tests
    about = {"number": 1, "gpu_type": "t4", "asker": "grace", "nonce": "n", "log": ""}
    test = await tests.add_test(fingerprint=RLANG.fingerprint, name="r", at=1.0, **about)
    await tests.change(test.id, state=WorkState.PASSED, result=result)
    found = {item["environment"]: item for item in (await site.ask("GET")).json()["items"]}
    assert set(found) == {"torch", "r"}
    assert [kernel["name"] for kernel in found["r"]["kernels"]] == ["ir"]
    assert found["r"]["gpu_types"] == ["t4"] and found["r"]["max_gpus"] is None


async def test_only_what_the_owner_sees(site: Site) -> None:
    site.cluster.see(RECORDS[0].model_copy(update={"groups": (), "nodes": ()}))
    found = (await site.ask("GET")).json()
    assert (found["items"], found["address"]) == ([], "")


async def test_a_site_that_offers_none(site: Site) -> None:
    site.parts.settings.get(JobKernels).per_user = 0
    assert (await site.ask("GET")).json()["items"] == []


# -- start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["session", "second"])
async def test_a_session_starts_one(site: Site, token: str) -> None:
    answer = await site.ask("POST", "", BODY, token)
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"id": ID, "server": SERVER}
    options = {
        **({"account": "physics"} if token == "session" else {}),  # as the session's is charged
        "environment": "torch",
        "gpus": 1,
        "memory": "8G",
        "kernel": {"id": ID, "name": "python3"},
    }
    assert site.hub.begun == [("ada", SERVER, options)]
    session = "session 1" if token == "session" else "session 2"
    assert await site.audit() == [("ada", "start-kernel", session, "done")]


@pytest.mark.parametrize(
    "token", ["room", "rehearsal", "preview", "tensorboard", "marimo", "kernel"]
)
async def test_sessions_of_other_kinds_may_not(site: Site, token: str) -> None:
    await teach(site)
    options = {"kernel": {"id": ID, "name": "python3"}}
    site.cluster.see(a_record("7", SERVER, options=options))
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", BODY),
        ("POST", "/estimates", {}),
        ("GET", f"/{ID}", None),
        ("DELETE", f"/{ID}", None),
    ):
        answer = await site.ask(method, path, body, token)
        assert answer.status_code == 403, (method, path)
        assert said(answer).startswith("Kernels in jobs of their own are not offered in ")
    assert site.hub.begun == [] and site.hub.stopped == []
    outcomes = {(action, outcome) for _, action, _, outcome in await site.audit()}
    assert outcomes == {("start-kernel", "refused"), ("stop-kernel", "refused")}
    answer = await site.ask("GET", "", None, "room")
    assert said(answer).endswith("in a course's room.")


# -- in courses ------------------------------------------------------------------------------------


IN_COURSE = {"id": ID, "kernel": "python3", "environment": "teaching", "gpus": 1}


async def test_a_course_s_session_has_the_course_s_environment(site: Site) -> None:
    await teach(site)
    found = (await site.ask("GET", "", None, "course")).json()
    (item,) = found["items"]
    assert (item["environment"], item["gpu_types"], item["max_gpus"]) == ("teaching", ["v100"], 1)
    assert item["default"]["gpus"] == 1 and item["default"]["account"] == "dl101"
    fields = {field["name"] for field in found["fields"]}
    assert fields == {"gpus", "gpu_type", "cpus", "memory", "time"}, "the course sets the rest"


async def test_it_starts_by_the_course_s_rules_alone(site: Site) -> None:
    """Nothing of the session's own account travels with it: the Hub takes the course's."""
    await teach(site)
    answer = await site.ask("POST", "", IN_COURSE, "course")
    assert answer.status_code == 202, answer.text
    kernel = {"id": ID, "name": "python3", "course": "deep"}
    options = {"environment": "teaching", "gpus": 1, "kernel": kernel}
    assert site.hub.begun == [("ada", SERVER, options)]


async def test_a_course_that_does_not_allow_them(site: Site) -> None:
    await teach(site, job_kernels=False)
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", IN_COURSE),
        ("POST", "/estimates", {}),
    ):
        answer = await site.ask(method, path, body, "course")
        assert answer.status_code == 403, (method, path)
        assert said(answer) == (
            "The course 'Deep Learning' does not allow kernels in jobs of their own. Its "
            "instructor can allow them in the course's settings."
        )
    assert site.hub.begun == []
    assert await site.audit() == [("ada", "start-kernel", "session 3", "refused")]


async def test_one_from_before_it_was_forbidden_can_be_stopped(site: Site) -> None:
    await teach(site, job_kernels=False)
    site.cluster.see(a_kernel(SessionState.RUNNING, space="deep"))
    assert (await state(site, "course"))["state"] == "running"
    assert (await site.ask("DELETE", f"/{ID}", None, "course")).status_code == 200
    assert site.hub.stopped == [("ada", SERVER, "ada")]


async def test_a_course_s_session_reaches_no_kernel_of_another(site: Site) -> None:
    """Helpers are let into it, and can read its token."""
    await teach(site)
    site.cluster.see(a_kernel(SessionState.RUNNING))
    for method in ("GET", "DELETE"):
        assert (await site.ask(method, f"/{ID}", None, "course")).status_code == 404
    site.cluster.see(a_kernel(SessionState.RUNNING, space="other"))
    assert (await site.ask("DELETE", f"/{ID}", None, "course")).status_code == 404
    assert (await site.ask("GET", f"/{ID}")).status_code == 404, "nor the other way round"
    assert site.hub.stopped == []


async def test_an_estimate_is_of_the_course_s_account_and_limits(site: Site) -> None:
    await teach(site)
    asked: list[Any] = []

    async def associations(_: str) -> Any:
        return (Association(account="dl101", user="ada"),)

    async def cluster(*_: Any, **__: Any) -> ClusterSnapshot:
        partition = Partition(name="gpu", default=True, nodes=("gpu01",))
        return site.cluster.view.snapshot.model_copy(update={"partitions": {"gpu": partition}})

    async def answer(request: Any, *_: Any) -> StartAnswer:
        asked.append(request)
        return StartAnswer(outlook=Outlook.NOW, words="Now.", made_at=0.0)

    site.parts.cluster = SimpleNamespace(snapshot=cluster, associations=associations)  # type: ignore[assignment]
    site.parts.estimates.answer = answer  # type: ignore[method-assign]

    async def estimate(**options: Any) -> httpx.Response:
        return await site.ask("POST", "/estimates", {"options": options}, "course")

    found = await estimate(environment="teaching")
    assert found.json()["outlook"] == "now", found.text
    (request,) = asked
    assert (request.resources.account, request.resources.gpus) == ("dl101", 1)
    for options, words in (
        ({"gpus": 2}, "allows each member 1 GPU at once, not 2."),
        ({"gpus": 0}, "at least one GPU"),
        ({"environment": "torch"}, "This course uses 'Teaching'"),
    ):
        found = await estimate(**options)
        assert found.json()["outlook"] == "refused" and words in found.json()["words"], found.text
    assert (await estimate(account="physics")).status_code == 400
    site.cluster.see(a_record("30", "course-deep", options={"gpus": 1}, space="deep"))
    assert "your session has 1" in (await estimate()).json()["words"]


@pytest.mark.parametrize("token", ["ada", "unknown"])
async def test_a_persons_token_is_no_sessions(site: Site, token: str) -> None:
    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{ID}"), ("DELETE", f"/{ID}")):
        assert (await site.ask(method, path, BODY, token)).status_code == 403
    assert site.hub.begun == [] and site.hub.stopped == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "../../etc"},
        {"id": "1234567"},
        {"id": "0" * 41},
        {"id": f"{ID}\n"},
        {"id": 7},
        {"kernel": "a b"},
        {"kernel": ""},
        {"kernel": "a" * 101},
        {"environment": "../x"},
        {"gpus": -1},
        {"gpus": "1"},
        {"memory": "much"},
        {"partition": "-x"},
        {"course": "deep"},
        {"server": ""},
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_hostile_bodies_start_nothing(site: Site, wrong: dict[str, Any]) -> None:
    answer = await site.ask("POST", "", {**BODY, **wrong})
    assert answer.status_code == 400, answer.text
    assert site.hub.begun == []


@pytest.mark.parametrize("missing", ["id", "kernel", "environment"])
async def test_what_is_missing_is_named(site: Site, missing: str) -> None:
    body = {key: value for key, value in BODY.items() if key != missing}
    answer = await site.ask("POST", "", body)
    assert answer.status_code == 400 and missing in said(answer)


async def test_a_refusal_of_the_hub_is_told(site: Site) -> None:
    for refusal, status in (
        (NotAllowed("You have 8 kernels."), 403),
        (Conflict("It is already running."), 409),
    ):
        site.hub.refusal = refusal
        answer = await site.ask("POST", "", BODY)
        assert (answer.status_code, said(answer)) == (status, str(refusal))
    assert {line[3] for line in await site.audit()} == {"refused", "failed"}


# -- state and end ---------------------------------------------------------------------------------


def a_kernel(state: SessionState, id: str = "9", **more: Any) -> SessionRecord:
    options = {"environment": "torch", "gpus": 1, "kernel": {"id": ID, "name": "python3"}}
    nodes = () if state is SessionState.PENDING else ("gpu01",)
    return a_record(id, SERVER, state=state, options=options, nodes=nodes, **more)


async def state(site: Site, token: str = "session", id_: str = ID) -> dict[str, Any]:
    answer = await site.ask("GET", f"/{id_}", None, token)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_from_the_submission_to_the_end(site: Site) -> None:
    store = site.parts.store
    site.hub.running["ada", SERVER] = "starting"
    assert await state(site) == {
        "id": ID, "state": "waiting", "job_id": "", "log": "", "node": "",
        "ends_at": None, "position": None, "expected_start": None,
        "message": "The job is being submitted.",
    }  # fmt: skip
    site.hub.running["ada", SERVER] = "ready"
    assert (await state(site))["state"] == "running", "the database is slow"
    # Before the next query of Slurm.
    await store.sessions.save(a_kernel(SessionState.PENDING))
    assert (await state(site))["message"] == "Job 19 was submitted."
    waiting = {"state": "PENDING", "words": "waiting for resources", "nodes": (), "position": 2}
    site.cluster.see(a_kernel(SessionState.PENDING), **waiting)
    found = await state(site)
    assert (found["state"], found["job_id"]) == ("waiting", "19")
    assert found["message"] == "Job 19: waiting for resources: 2nd in the queue."
    assert found["position"] == 2
    site.cluster.see(a_kernel(SessionState.PENDING))
    assert (await state(site))["state"] == "running"
    site.cluster.see(a_kernel(SessionState.RUNNING))
    assert await state(site) == {
        "id": ID, "state": "running", "job_id": "19", "log": "", "node": "gpu01",
        "ends_at": None, "position": None, "expected_start": None,
        "message": "Job 19 is running on gpu01.",
    }  # fmt: skip
    site.hub.running.clear()
    del site.cluster.sessions["19"], site.cluster.jobs["19"]
    words = "The kernel ended: its program exited with code 1."
    over = a_kernel(SessionState.ENDED, ending_code="failed", ending_message=words, log="no torch")
    await store.sessions.save(over)
    found = await state(site)
    assert (found["state"], found["log"]) == ("ended", "no torch")
    assert found["message"] == "The kernel ended: its program exited with code 1."
    # The same one again: its new job has no record yet.
    site.hub.running["ada", SERVER] = "starting"
    assert (await state(site))["state"] == "waiting"
    assert site.cluster.asked == 0, "Slurm was queried"


async def test_the_newest_of_two_counts(site: Site) -> None:
    early = a_kernel(SessionState.ENDED, ending_code="stopped", submitted_at=5.0)
    late = a_kernel(SessionState.PENDING, "10", submitted_at=6.0)
    await site.parts.store.sessions.save(early, late)
    assert (await state(site))["job_id"] == "110"


async def test_kernels_of_others_are_not_there(site: Site) -> None:
    await site.parts.store.sessions.save(a_kernel(SessionState.RUNNING))
    site.cluster.see(a_kernel(SessionState.RUNNING))
    for token, id_ in (
        ("barbaras-session", ID),
        ("session", "12345678"),
        ("session", f"{ID[:-1]}0"),  # its server has the same name
        ("session", "python3"),
        ("session", "..%2f..%2fetc"),
    ):
        answer = await site.ask("GET", f"/{id_}", None, token)
        assert answer.status_code == 404, (token, id_)
    assert (await state(site, "second"))["state"] == "running", "any of one's own sessions may ask"


async def test_it_is_stopped(site: Site) -> None:
    answer = await site.ask("DELETE", f"/{ID}")
    assert answer.status_code == 200, answer.text
    assert site.hub.stopped == [("ada", SERVER, "ada")]
    assert await site.audit() == [("ada", "stop-kernel", "session 1", "done")]


async def test_what_has_ended_is_no_error(site: Site) -> None:
    site.hub.running.clear()
    await site.parts.store.sessions.save(a_kernel(SessionState.ENDED, ending_code="stopped"))
    assert (await site.ask("DELETE", f"/{ID}")).status_code == 200
    answer = await site.ask("DELETE", "/12345678")
    assert (answer.status_code, said(answer)) == (404, "You have no such kernel.")


def test_the_body_is_documented() -> None:
    schema = NewJobKernel.model_json_schema()
    assert set(schema["required"]) == {"id", "kernel", "environment"}
    assert {"gpus", "memory", "time"} <= schema["properties"].keys()
