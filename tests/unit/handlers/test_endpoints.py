"""Endpoints of models: who may make, see and change them, and what their replicas report."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import gpu_node, snapshot
from fake_hub import FakeHub
from session_endpoints import catalog_of, of_server, parts_on, person, said, served
from session_records import recorded

from portal.gateway.keys import CERTIFICATE, ensure_identity
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.session import SessionState
from portal.projects.served import ENDPOINTS as OF_PROJECTS
from portal.store import Store
from portal.work.endpoint.addresses import ENDPOINTS
from portal.work.endpoint.models import EndpointReplica
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable
from portal.work.replicas.endpoints import ENDPOINTS as OF_SETS
from portal.work.replicas.tables import ReplicaSetTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID = "5e2f3c1a0b7d4c8e9a6f"
SERVER = "ep-5e2f3c1a0b7d4c8e-0"
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab", max_gpus=2)
TOKENS = {
    "ada": {**person("ada"), "groups": ["lab"]},
    "barbara": {**person("barbara"), "groups": ["lab"]},
    "carl": person("carl"),
    "replica": of_server("ada", SERVER),
    "session": of_server("ada"),
    "in course": of_server("ada", "course-ml"),
}
VERSION = {
    "environment": "lab",
    "command": ["{python}", "-m", "app", "--uds", "{socket}"],
    "example": {"method": "POST", "path": "/v1/embeddings", "body": {"input": "hello"}},
    "gpus": 1,
}
NOW = time.time()
RECORDS = (
    recorded(
        id="1", user="ada", server=SERVER, job_id="41", state=SessionState.RUNNING,
        submitted_at=NOW, options={"endpoint": {"id": ID, "number": 0}}, work="endpoint",
    ),
    recorded(id="2", user="ada", job_id="42", state=SessionState.RUNNING, submitted_at=NOW),
    recorded(
        id="3", user="ada", server="course-ml", job_id="43", state=SessionState.RUNNING,
        submitted_at=NOW, space="ml",
    ),
)  # fmt: skip


class Site:
    """The endpoints on loopback."""

    def __init__(
        self, client: httpx.AsyncClient, store: Store, directory: Path, parts: Any
    ) -> None:
        self.client, self.store, self.parts = client, store, parts
        self.certificate = (directory / CERTIFICATE).read_text()

    async def ask(
        self, method: str, path: str = "models/embed", body: Any = None, who: str = "ada"
    ) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def done(self, *asked: Any, **more: Any) -> dict[str, Any]:
        answer = await self.ask(*asked, **more)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def refused(self, status: int, *asked: Any, **more: Any) -> str:
        answer = await self.ask(*asked, **more)
        assert answer.status_code == status, answer.text
        return said(answer)

    async def audit(self) -> list[tuple[str, str, str]]:
        entries, _ = await self.store.audit.find()
        return [(each.action, each.target, each.outcome.value) for each in reversed(entries)]

    async def report(self, who: str = "replica", **more: Any) -> httpx.Response:
        told = {"port": 40000, "certificate": self.certificate, "ready": True, **more}
        return await self.ask("PUT", "session/endpoint", told, who)

    async def row(self) -> EndpointReplica:
        return await self.store.table(EndpointReplicaTable).get("ada", ID)


@pytest.fixture
async def site(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setenv("PORTAL_GATEWAY_STATE", str(tmp_path))
    await store.sessions.save(*RECORDS)
    ensure_identity(tmp_path)
    jobs = [Job(id=record.job_id, user="ada", state=JobState.RUNNING) for record in RECORDS]
    now = snapshot(gpu_node("gpu01", "v100", 4), gpu_node("cpu01"), *jobs)

    async def as_seen(*_: Any, **__: Any) -> Any:
        return now

    async def associations(user: str) -> None:
        return None

    catalog = catalog_of(LAB)
    catalog.visible_to = lambda someone: [LAB]
    view = SimpleNamespace(
        sessions={record.job_id: record for record in RECORDS}, jobs={}, snapshot=now
    )
    parts = parts_on(
        store,
        dashboard=SimpleNamespace(view=view),
        cluster=SimpleNamespace(runner=None, snapshot=as_seen, associations=associations),
        hub=FakeHub(),
        catalog=catalog,
    )
    async with served(
        [*ENDPOINTS, *OF_SETS, *OF_PROJECTS], parts, TOKENS.get, logins=True
    ) as client:
        yield Site(client, store, tmp_path, parts)


async def test_an_endpoint_is_made_gets_versions_and_is_rolled_back(site: Site) -> None:
    made = await site.done("PUT", body={"most": 3, "groups": ["lab"]})
    assert (made["owner"], made["most"], made["idle"]) == ("ada", 3, 1800)
    assert made["address"] == "/services/portal/models/embed/"
    # What is not named stays.
    changed = await site.done("PUT", body={"least": 1})
    assert (changed["least"], changed["most"], changed["groups"]) == (1, 3, ["lab"])
    first = await site.done("POST", "models/embed/versions", VERSION)
    (version,) = first["versions"]
    assert (version["number"], version["share"], version["resources"]) == (1, 100, {"gpus": 1})
    assert version["example"]["body"] == {"input": "hello"}
    second = await site.done("POST", "models/embed/versions", {**VERSION, "share": 10})
    assert [(each["number"], each["share"]) for each in second["versions"]] == [(2, 10), (1, 90)]
    back = await site.done("PUT", "models/embed/shares", {"shares": {"1": 100, "2": 0}})
    assert [(each["number"], each["share"]) for each in back["versions"]] == [(2, 0), (1, 100)]
    assert "deleted" in (await site.done("DELETE"))["message"]
    await site.refused(404, "GET")
    assert await site.audit() == [
        ("set-endpoint", "endpoint embed", "done"),
        ("set-endpoint", "endpoint embed", "done"),
        ("add-endpoint-version", "endpoint embed", "done"),
        ("add-endpoint-version", "endpoint embed", "done"),
        ("set-endpoint-shares", "endpoint embed", "done"),
        ("delete-endpoint", "endpoint embed", "done"),
    ]


async def test_others_see_what_they_may_use_and_change_nothing(site: Site) -> None:
    await site.done("PUT", body={"groups": ["lab"]})
    (seen,) = (await site.done("GET", "models", who="barbara"))["items"]
    assert (seen["name"], seen["owner"], seen["ready"]) == ("embed", "ada", 0)
    assert (await site.done("GET", "models", who="carl"))["items"] == []
    for asked in (("GET",), ("DELETE",), ("POST", "models/embed/versions", VERSION)):
        assert "belongs to ada" in await site.refused(403, *asked, who="barbara")
        assert "no such endpoint" in await site.refused(404, *asked, who="carl")
    assert "Choose another name" in await site.refused(409, "PUT", body={}, who="carl")
    assert (await site.store.table(EndpointTable).get("embed")).user == "ada"


async def test_a_session_serves_for_its_user_below_its_own_addresses(site: Site) -> None:
    """What portal-serve does, with the session's token; that token may do it nowhere else."""
    await site.done("PUT", "session/models/embed", {"most": 2}, who="session")
    await site.done("POST", "session/models/embed/versions", VERSION, who="session")
    shown = await site.done("GET", "session/models/embed", who="session")
    assert (shown["owner"], shown["most"], len(shown["versions"])) == ("ada", 2, 1)
    await site.done("PUT", "session/models/embed/shares", {"shares": {"1": 100}}, who="session")
    assert len((await site.done("GET", "session/models", who="session"))["items"]) == 1
    assert (await site.done("GET", "session/model-catalog", who="session"))["items"] == []
    for path in ("models", "models/embed", "model-catalog"):
        assert (await site.ask("GET", path, who="session")).status_code == 403, path
    assert (await site.ask("DELETE", "models/embed", who="session")).status_code == 403
    for who in ("ada", "carl"):  # a person's token has no session
        assert (await site.ask("GET", "session/models/embed", who=who)).status_code == 403
    assert "replica" in await site.refused(403, "GET", "session/models", who="replica")
    assert "belongs to" not in (await site.ask("DELETE", "session/models/other")).text
    await site.done("DELETE", "session/models/embed", who="session")
    actions = [action for action, _, outcome in await site.audit() if outcome == "done"]
    assert actions[-1] == "delete-endpoint"


async def test_a_course_s_session_serves_nothing(site: Site) -> None:
    course = SimpleNamespace(space=SimpleNamespace(noun="course", replicas=False))

    async def space(name: str) -> Any:
        return course

    site.parts.memberships = SimpleNamespace(space=space)
    words = await site.refused(403, "PUT", "session/models/embed", {}, who="in course")
    assert words == "Endpoints are not offered in a course."
    await site.refused(404, "GET")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, {**VERSION, "environment": ""}, "'environment' is missing"),
        (400, {"environment": "lab"}, "'command' is missing"),
        (404, {"source": {"model": "nobodys"}}, "no model 'nobodys'"),
        (400, {**VERSION, "command": ["python", "app.py"]}, "'{socket}'"),
        (400, {**VERSION, "command": ["app", "--port={port}"]}, "'{secret}'"),
        (400, {**VERSION, "nodes": 2}, "'nodes' must be 1"),
        (403, {**VERSION, "environment": "other"}, "No environment"),
        (403, {**VERSION, "gpus": 3}, "GPU"),
        (400, {**VERSION, "time": "soon"}, "'time'"),
        (400, {**VERSION, "health": "health"}, "'health'"),
        (400, {**VERSION, "share": 101}, "'share'"),
        (400, {**VERSION, "example": {"method": "DELETE", "path": "/"}}, "'example.method'"),
        (404, {**VERSION, "source": {"run": "5e2f3c1a"}}, "no such run"),
    ],
)
async def test_a_wrong_version_is_refused_with_the_field(
    site: Site, status: int, body: Any, words: str
) -> None:
    await site.done("PUT", body={})
    assert words in await site.refused(status, "POST", "models/embed/versions", body)
    assert await site.store.table(EndpointVersionTable).of_endpoint("embed") == []


async def test_wrong_wishes_are_refused(site: Site) -> None:
    assert "'least' (2)" in await site.refused(400, "PUT", body={"least": 2})
    assert "10 at most" in await site.refused(403, "PUT", body={"most": 11})
    await site.refused(404, "PUT", "models/Embed%2F..", {})
    await site.done("PUT", body={})
    for shares in ({"7": 100}, {"01": 100}, {"-1": 5}):
        words = await site.refused(400, "PUT", "models/embed/shares", {"shares": shares})
        assert "is no version of this endpoint. It has: none" in words
    await site.done("POST", "models/embed/versions", VERSION)
    words = await site.refused(400, "PUT", "models/embed/shares", {"shares": {"1": 0}})
    assert "more than 0" in words


async def test_a_version_of_a_run_says_which_software_made_it(site: Site) -> None:
    run = Run(
        user="ada", id=ID, name="rates", source="train.py", folder="/home/ada/runs/rates",
        points=2, server="run-5e2f", environment="lab", version=4, created_at=NOW, job_id="7",
    )  # fmt: skip
    await site.store.table(RunTable).add_run(run)
    point = RunPoint(
        number=1, state=PointState.SUCCEEDED, parameters={"lr": 0.1}, metrics={"loss": 0.5}
    )
    await site.store.table(RunPointTable).save([(("ada", ID), point)])
    await site.done("PUT", body={})
    source = {"run": ID, "point": 1}
    made = await site.done("POST", "models/embed/versions", {**VERSION, "source": source})
    known = {
        "name": "rates",
        "version": 4,
        "folder": "/home/ada/runs/rates",
        "digest": "",
        "parameters": {"lr": 0.1},
        "metrics": {"loss": 0.5},
    }
    assert made["versions"][0]["source"] == {**source, **known}
    source["point"] = 2
    body = {**VERSION, "source": source}
    assert "2 points" in await site.refused(400, "POST", "models/embed/versions", body)


async def test_a_version_that_was_given_up_is_tried_again_by_its_share(site: Site) -> None:
    await site.done("PUT", body={})
    await site.done("POST", "models/embed/versions", VERSION)
    versions = site.store.table(EndpointVersionTable)
    await versions.change("embed", 1, failures=3, problem="It died.")
    await site.done("PUT", "models/embed/shares", {"shares": {"1": 100}})
    (version,) = await versions.of_endpoint("embed")
    assert (version.failures, version.problem) == (0, "")


async def replica(site: Site, **more: Any) -> None:
    row = EndpointReplica(
        user="ada", id=ID, endpoint="embed", version=1, environment="lab", created_at=NOW,
        command=("app", "{socket}"), **more,
    )  # fmt: skip
    await site.store.table(EndpointReplicaTable).add_replica(row)


async def test_a_replica_reports_and_answers_anew_after_its_program_died(site: Site) -> None:
    await replica(site)
    assert (await site.report(ready=False)).json() == {"draining": False}
    row = await site.row()
    assert (row.job_id, row.port, row.answered_at) == ("41", 40000, None)
    await site.report()
    row = await site.row()
    assert row.answered_at is not None and row.certificate == site.certificate
    await site.store.table(EndpointReplicaTable).set_ready(row, NOW)
    await site.report()
    assert (await site.row()).ready_at == NOW, "a report that says the same changes nothing"
    await site.report(ready=False)
    row = await site.row()
    assert (row.answered_at, row.ready_at) == (None, None)


async def test_another_port_must_answer_the_example_again(site: Site) -> None:
    await replica(site, job_id="41", port=40001, answered_at=NOW, ready_at=NOW)
    await site.report()
    row = await site.row()
    assert row.ready_at is None and row.answered_at is not None


async def test_only_the_job_of_a_replica_reports(site: Site) -> None:
    await replica(site, job_id="40")
    answer = await site.report()
    assert answer.status_code == 403 and "another job" in said(answer)
    answer = await site.report("session")
    assert answer.status_code == 403 and "not a replica" in said(answer)
    assert (await site.report("ada")).status_code == 403
    assert (await site.row()).port == 0


async def test_a_report_that_cannot_be_trusted_is_refused(site: Site) -> None:
    await replica(site)
    for wrong in ({"certificate": "no"}, {"port": 80}, {"port": "40000"}, {"ready": 1}):
        assert (await site.report(**wrong)).status_code == 400, wrong
    assert (await site.row()).job_id == ""


async def test_a_replica_of_a_deleted_endpoint_is_told_to_drain(site: Site) -> None:
    assert (await site.report()).json() == {"draining": True}


async def test_nobody_changes_the_sets_of_endpoints_by_hand(site: Site) -> None:
    own = ReplicaSet(
        user="ada", id=ID, work="endpoint", options={"cpus": 1}, replicas=1, created_at=NOW
    )
    table = site.store.table(ReplicaSetTable)
    await table.save(own, 10)
    path = f"replica-sets/{ID}"
    wanted = {"work": "endpoint", "replicas": 5, "options": {"environment": "lab"}}
    await site.refused(400, "PUT", path, wanted)
    assert "replica of an endpoint" in await site.refused(409, "DELETE", path)
    assert await table.get("ada", ID) == own
