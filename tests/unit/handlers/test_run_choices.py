"""Choices for a new run, for the session's dialog; and the page's way to a session with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import gpu_node, snapshot
from session_endpoints import PREFIX, catalog_of, of_server, parts_on, person, said, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.assembly import Services
from portal.catalog.availability import Offer
from portal.errors import SlurmUnavailable
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Association, Job, JobState, Partition
from portal.models.person import Person
from portal.models.session.estimate import Outlook, StartAnswer
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.run.endpoints import choices
from portal.work.run.pages import NewRunPage
from portal.work.run.parts import RunParts

TORCH = Environment(
    name="torch",
    title="PyTorch",
    kind="venv",
    path="/opt/torch",
    groups=("research",),
    gpu_types=("v100", "a100"),
)
RLANG = Environment(name="r", title="R", kind="venv", path="/opt/r", max_gpus=0)
STAFF = Environment(name="staff", title="Staff", kind="venv", path="/opt/s", groups=("staff",))
TOKENS = {
    "session": of_server("ada"),
    "course": of_server("ada", "course-deep"),
    "room": of_server("ada", "room-deep"),
    "run": of_server("ada", "run-5e2f3c1a"),
    "ada": person("ada"),
}


def a_record(id_: str, server: str = "", **more: Any) -> SessionRecord:
    values = {"user": "ada", "job_id": f"1{id_}", "state": SessionState.RUNNING, "submitted_at": 5}
    return recorded(id=id_, server=server, **{**values, "groups": ("research",), **more})


RECORDS = (
    a_record("1", environment="torch", options={"environment": "torch", "account": "physics"}),
    a_record("2", "course-deep", environment="lab", options={"course": "deep"}, space="deep"),
    a_record("3", "room-deep", environment="lab", options={"course": "deep"}, space="deep"),
)


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts
        self.estimated: list[Any] = []

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = "session"
    ) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        return await self.client.request(
            method, f"session/runs/{path}", content=content, headers=headers
        )


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.sessions.save(*RECORDS)
    catalog = catalog_of(TORCH, RLANG, STAFF)
    catalog.visible_to = lambda someone: [
        environment
        for environment in catalog.environments.values()
        if not environment.groups or set(environment.groups) & set(someone.groups)
    ]
    catalog.offering = SimpleNamespace(gpu_types=lambda _, there: sorted(there))
    jobs = [Job(id=record.job_id, user="ada", state=JobState.RUNNING) for record in RECORDS]
    nodes = [gpu_node("gpu01", "v100", 4), gpu_node("gpu02", "t4", 4)]
    where = {
        node.name: Partition(name=node.name, nodes=(node.name,), default=node is nodes[0])
        for node in nodes
    }
    seen = snapshot(*jobs, *nodes).model_copy(update={"partitions": where})
    sessions = {record.job_id: record for record in RECORDS}
    dashboard = SimpleNamespace(view=SimpleNamespace(sessions=sessions, jobs={}, snapshot=seen))
    telemetry = SimpleNamespace(simulated=True)

    async def associations(user: str) -> tuple[Association, ...]:
        return tuple(Association(user=user, account=name) for name in ("biology", "physics"))

    parts = parts_on(
        store,
        dashboard=dashboard,
        catalog=catalog,
        telemetry=telemetry,
        cluster=SimpleNamespace(runner=None, associations=associations),
    )
    async with served(choices.ENDPOINTS, parts, TOKENS.get) as client:
        yield Site(client, parts)


async def test_the_environments_and_fields(site: Site) -> None:
    answer = await site.ask("GET", "choices")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    torch, rlang = found["items"]
    assert (torch["environment"], torch["title"], torch["gpu_types"]) == (
        "torch",
        "PyTorch",
        ["v100"],
    )
    assert rlang["environment"] == "r" and torch["default"]["gpus"] == 0
    assert (found["environment"], found["points"], found["simulated"]) == ("torch", 10_000, True)
    assert found["pages"] == f"{PREFIX}runs/"
    fields = {field["name"]: field for field in found["fields"]}
    assert fields["gpu_type"]["values"] == ["t4", "v100"] and "time" in fields
    assert fields["partition"]["values"] == ["gpu01", "gpu02"]
    assert fields["account"]["values"] == ["biology", "physics"]
    assert fields["account"]["unset"] == "The session's (physics)"


async def test_accounts_that_are_not_known_are_no_choice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def associations(user: str) -> Any:
        raise SlurmUnavailable("slurmdbd does not answer.")

    monkeypatch.setattr(site.parts.cluster, "associations", associations)
    fields = {field["name"]: field for field in (await site.ask("GET", "choices")).json()["fields"]}
    assert fields["account"]["values"] == [] and fields["partition"]["values"]


async def test_a_site_without_runs(site: Site) -> None:
    site.parts.parts_for(RunParts).limits.per_user = 0
    answer = await site.ask("GET", "choices")
    assert (answer.status_code, said(answer)) == (403, "Runs are not offered on this site.")


async def test_a_course_s_session_has_the_course_s_environment_and_fields(site: Site) -> None:
    limits = {"default": {"cpus": 2}, "largest": {"gpus": 1, "cpus": 4}}
    course = a_course(account="dl101", runs=True, **limits)
    lab = Environment(name="lab", title="Lab", kind="container", image="/i/lab.sif")
    await site.parts.store.courses.add_space(stored(course, pinned=lab))

    async def offered(environment: Environment) -> Offer:
        return Offer(environment)

    catalog: Any = site.parts.catalog
    catalog.offering.offer_for = offered
    answer = await site.ask("GET", "choices", token="course")
    assert answer.status_code == 200, answer.text
    (item,) = answer.json()["items"]
    assert (item["environment"], item["title"]) == ("lab", "Deep Learning: Lab")
    default = item["default"]
    assert (default["cpus"], default["gpus"], default["account"]) == (2, 0, "dl101")
    names = {field["name"] for field in answer.json()["fields"]}
    assert {"gpus", "time"} <= names and not names & {"account", "partition", "qos"}

    async def cluster(*_: Any, **__: Any) -> Any:
        partition = Partition(name="gpu", default=True, nodes=("gpu01",))
        seen = site.parts.dashboard.view.snapshot  # type: ignore[union-attr]
        return seen.model_copy(update={"partitions": {"gpu": partition}})

    async def associations(_: str) -> Any:
        return (Association(account="dl101", user="ada"),)

    async def answered(request: Any, *_: Any) -> StartAnswer:
        resources = request.resources
        words = f"{resources.account} {resources.gpus}"
        return StartAnswer(outlook=Outlook.NOW, words=words, made_at=0.0)

    site.parts.cluster = SimpleNamespace(snapshot=cluster, associations=associations)  # type: ignore[assignment]
    site.parts.estimates.answer = answered  # type: ignore[method-assign]
    for options, words in (
        ({}, "dl101 0"),
        ({"gpus": 1, "gpu_type": "v100"}, "dl101 1"),
        ({"gpus": 2}, "allows each member 1 GPU at once, not 2."),
        ({"cpus": 5}, "4"),
        ({"environment": "torch"}, "This course uses 'Lab'"),
    ):
        answer = await site.ask("POST", "estimates", {"options": options}, "course")
        assert words in answer.json()["words"], answer.text
    answer = await site.ask("POST", "estimates", {"options": {"account": "bio"}}, "course")
    assert answer.status_code == 400 and "The course sets 'account'" in said(answer)


@pytest.mark.parametrize("token", ["room", "ada", "run"])
async def test_others_are_offered_none(site: Site, token: str) -> None:
    for method, path, body in (("GET", "choices", None), ("POST", "estimates", {"options": {}})):
        answer = await site.ask(method, path, body, token)
        assert answer.status_code in (403, 503), answer.text


async def test_an_estimate_has_the_session_s_environment_and_account(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def answered(_: Any, someone: Person, options: dict[str, Any]) -> StartAnswer:
        asked.append((someone.name, someone.groups, options))
        return StartAnswer(outlook=Outlook.NOW, made_at=1.0, words="Starts now.")

    monkeypatch.setattr(choices.SessionRunEstimates, "answered", answered)
    for options in ({"gpus": 1}, {"environment": "r", "account": "bio"}):
        answer = await site.ask("POST", "estimates", {"options": options})
        assert answer.status_code == 200 and answer.json()["words"] == "Starts now."
    assert [options for *_, options in asked] == [
        {"environment": "torch", "account": "physics", "gpus": 1},
        {"environment": "r", "account": "bio"},
    ]
    assert asked[0][:2] == ("ada", ("research",))


# -- the page --------------------------------------------------------------------------------------


async def test_a_new_run_leads_to_a_launch_and_comes_back() -> None:
    """For a person without a running session (test_run_form.py)."""
    page = SimpleNamespace(
        parts=SimpleNamespace(prefix="/services/portal/"),
        settings={"pages": SimpleNamespace(hub="/hub/")},
    )
    variables = await NewRunPage.variables(page)  # type: ignore[arg-type]
    assert variables == {"launch": "/hub/spawn?next=%2Fservices%2Fportal%2Fruns%2Fnew"}
