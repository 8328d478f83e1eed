"""Runs: started by a session with its token, reported by their job, seen and stopped by their user.
On a real Slurm: tests/hub/sessions/test_runs.py."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import snapshot
from fake_hub import FakeHub
from session_endpoints import of_server, parts_on, person, said, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.assembly import Services
from portal.errors import HubUnavailable, NotAllowed
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Job, JobState
from portal.models.cluster.dashboard import JobItem
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.run.endpoints import ask, bests, curves, reports, runs, start
from portal.work.run.parts import RunParts
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.searches import RunSearchTable

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
RUN = {
    "id": ID,
    "name": "rates",
    "source": "work/train.ipynb",
    "folder": "/home/ada/projects/runs/rates",
    "points": 5,
    "at_once": 2,
}
BODY_OPTIONS = {"gpus": 1, "memory": "8G"}
BODY = {**RUN, **BODY_OPTIONS}
TOKENS = {
    "session": of_server("ada"),
    "course": of_server("ada", "course-deep"),
    "room": of_server("ada", "room-deep"),
    "kernel": of_server("ada", "kernel-5e2f3c1a"),
    "run": of_server("ada", SERVER),
    "barbaras-run": of_server("barbara", SERVER),
    "barbaras-session": of_server("barbara"),
    "ada": person("ada"),
    "barbara": person("barbara"),
}


def a_record(id: str, server: str = "", user: str = "ada", **more: Any) -> SessionRecord:
    values = {"job_id": f"1{id}", "state": SessionState.RUNNING, "submitted_at": time.time()}
    return recorded(id=id, user=user, server=server, **{**values, **more})


RECORDS = (
    a_record("1", environment="torch", options={"environment": "torch", "account": "physics"}),
    a_record(
        "2",
        "course-deep",
        environment="lab",
        options={"environment": "lab", "course": "deep", "account": "dl101"},
        space="deep",
    ),
    a_record("3", "kernel-5e2f3c1a", options={"kernel": {"id": "5e2f3c1a", "name": "r"}}),
    a_record("4", user="barbara", environment="torch"),
    a_record("5", "room-deep", options={"course": "deep"}, space="deep"),
)


class Cluster:
    """The service's view of the cluster."""

    def __init__(self) -> None:
        self.sessions = {record.job_id: record for record in RECORDS}
        self.jobs: dict[str, JobItem] = {}

    @property
    def view(self) -> Any:
        jobs = [Job(id=id_, user=record.user, state=JobState.RUNNING)
                for id_, record in self.sessions.items()]  # fmt: skip
        return SimpleNamespace(sessions=self.sessions, jobs=self.jobs, snapshot=snapshot(*jobs))

    async def refreshed(self) -> None:
        pass


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts = client, parts
        self.cluster: Any = parts.dashboard
        self.hub: Any = parts.hub

    async def ask(self, method: str, path: str, token: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        return await self.client.request(method, path, content=content, headers=headers)

    async def start(self, **changes: Any) -> None:
        answer = await self.ask("POST", "session/runs", "session", {**BODY, **changes})
        assert answer.status_code == 202, answer.text

    async def report(self, token: str = "run", **report: Any) -> httpx.Response:
        body = {"point": 0, "state": "running", **report}
        return await self.ask("POST", "session/points", token, body)

    async def get(self, path: str, token: str = "ada") -> Any:
        answer = await self.ask("GET", path, token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def audit(self) -> list[tuple[str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find()
        return [(e.actor, e.action, e.target, str(e.outcome)) for e in entries]


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.sessions.save(*RECORDS)
    parts = parts_on(store, dashboard=Cluster(), hub=FakeHub(running={}))
    kinds = (
        *start.ENDPOINTS,
        *ask.ENDPOINTS,
        *bests.ENDPOINTS,
        *reports.ENDPOINTS,
        *runs.ENDPOINTS,
        *curves.ENDPOINTS,
    )
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts)


# -- start -----------------------------------------------------------------------------------------


async def test_a_session_starts_one(site: Site) -> None:
    answer = await site.ask("POST", "session/runs", "session", BODY)
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"id": ID, "server": SERVER}
    options = {
        "account": "physics",  # as the session's is charged
        "environment": "torch",
        "gpus": 1,
        "memory": "8G",
        "run": RUN,
    }
    assert site.hub.begun == [("ada", SERVER, options)]
    assert await site.audit() == [("ada", "start-run", "session 1", "done")]
    (item,) = (await site.get("runs"))["items"]
    assert {name: item[name] for name in RUN} == RUN
    assert (item["state"], item["server"], item["job_id"]) == ("waiting", SERVER, "")
    assert item["resources"] == {"account": "physics", "gpus": 1, "memory": "8G"}
    assert item["counts"] == {"waiting": 5, "running": 0, "succeeded": 0, "failed": 0, "lost": 0}


async def test_another_environment_and_the_usual_number_at_once(site: Site) -> None:
    body = {key: value for key, value in BODY.items() if key != "at_once"}
    answer = await site.ask("POST", "session/runs", "session", {**body, "environment": "jax"})
    assert answer.status_code == 202, answer.text
    ((_, _, options),) = site.hub.begun
    assert options["environment"] == "jax" and options["run"]["at_once"] == 10


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("room", "Runs are not offered in a course's room."),
        ("kernel", "Runs are not offered in a kernel in a job of its own."),
    ],
)
async def test_sessions_of_other_kinds_may_not(site: Site, token: str, words: str) -> None:
    answer = await site.ask("POST", "session/runs", token, BODY)
    assert answer.status_code == 403 and said(answer).startswith(words)
    assert [line[1:] for line in await site.audit()] == [
        ("start-run", f"session {5 if token == 'room' else 3}", "refused")
    ]
    answer = await site.ask("GET", "runs", token)
    assert answer.status_code == 403 and said(answer).startswith(words.rstrip("."))
    assert site.hub.begun == []


async def teach(site: Site, *, runs: bool) -> None:
    """Add the course, as its instructor and an admin have made it."""
    digest = f"sha256:{'7' * 64}"
    pinned = Environment(
        name="lab", title="Lab", kind="container", image="/i/lab.sif", digest=digest
    )
    await site.parts.store.courses.add_space(stored(a_course(runs=runs), pinned=pinned))


async def test_a_course_s_session_starts_one_of_the_course(site: Site) -> None:
    await teach(site, runs=True)
    answer = await site.ask("POST", "session/runs", "course", BODY)
    assert answer.status_code == 202, answer.text
    ((_, server, options),) = site.hub.begun
    digest = f"sha256:{'7' * 64}"  # as the course has pinned it, whatever the catalog has
    run = {**RUN, "course": "deep", "digest": digest}
    assert (server, options) == (SERVER, {**BODY_OPTIONS, "environment": "lab", "run": run})
    assert (await site.get("runs"))["items"][0]["course"] == "deep"
    assert (await site.get(f"runs/{ID}", "session"))["name"] == "rates"


async def test_a_course_that_does_not_allow_runs(site: Site) -> None:
    await teach(site, runs=False)
    answer = await site.ask("POST", "session/runs", "course", BODY)
    words = "The course 'Deep Learning' does not allow runs. Its instructor can allow them in"
    assert answer.status_code == 403 and said(answer).startswith(words)
    assert [line[1:] for line in await site.audit()] == [("start-run", "session 2", "refused")]
    assert site.hub.begun == [] and (await site.get("runs"))["items"] == []


async def test_a_course_s_session_reaches_the_runs_of_the_course_alone(site: Site) -> None:
    """Helpers are let into it."""
    await teach(site, runs=True)
    await site.start()
    assert (await site.get("runs", "course"))["total"] == 0
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/points"), ("GET", "/points/0")):
        answer = await site.ask(method, f"runs/{ID}{path}", "course")
        assert (answer.status_code, said(answer)) == (404, "You have no such run."), path
    other = ID.replace("5", "6")
    answer = await site.ask("POST", "session/runs", "course", {**BODY, "id": other})
    assert answer.status_code == 202, answer.text
    assert [item["id"] for item in (await site.get("runs", "course"))["items"]] == [other]
    assert (await site.get(f"runs/{other}/points", "course"))["total"] == 5
    assert (await site.get("runs"))["total"] == 2
    assert (await site.ask("DELETE", f"runs/{other}", "course")).status_code == 200
    assert [server for _, server, _ in site.hub.stopped] == [site.hub.begun[1][1]]


async def test_the_list_has_filters(site: Site) -> None:
    await site.start()
    for query, total in {
        "text=RATE": 1,
        "text=train.ipynb": 1,
        "text=other": 0,
        "state=living&environment=torch": 1,
        "state=ended": 0,
        "state=failed": 0,
        "space=deep": 0,
    }.items():
        assert (await site.get(f"runs?{query}"))["total"] == total, query
    assert (await site.ask("GET", "runs?state=running", "ada")).status_code == 400


async def test_the_best_points_of_several_runs(site: Site) -> None:
    await teach(site, runs=True)
    await site.start()
    other = ID.replace("5", "6")
    assert (await site.get(f"run-bests?ids={ID},{other}"))["items"] == []
    curve = [[step, 2.0 - step / 100] for step in range(100)]
    await site.report(point=1, metrics={"step": 9, "loss": 1.5}, curves={"loss": [[0, 1.5]]})
    await site.report(point=3, metrics={"step": 9, "loss": 0.5}, curves={"loss": curve})
    (best,) = (await site.get(f"run-bests?ids={other},{ID}"))["items"]
    assert len(best["curve"]) == 40 and (best["curve"][0], best["curve"][-1]) == (2.0, 1.01)
    assert {**best, "curve": None} == {
        "run": ID, "metric": "loss", "lowest": True, "point": 3, "value": 0.5, "curve": None,
    }  # fmt: skip
    assert (await site.get(f"run-bests?ids={ID}", "barbara"))["items"] == []
    assert (await site.get(f"run-bests?ids={ID}", "course"))["items"] == [], "it is no space's"
    for ids in ("", "ada", f"{ID},", ",".join([ID] * 51)):
        assert (await site.ask("GET", f"run-bests?ids={ids}", "ada")).status_code == 400, ids


async def test_a_person_s_token_starts_none(site: Site) -> None:
    answer = await site.ask("POST", "session/runs", "ada", BODY)
    assert answer.status_code == 403 and site.hub.begun == []


async def test_a_refused_run_leaves_nothing(site: Site) -> None:
    for error in (NotAllowed("You have 20 runs."), HubUnavailable("The Hub does not answer.")):
        site.hub.refusal = error
        answer = await site.ask("POST", "session/runs", "session", BODY)
        assert answer.status_code == error.status and said(answer) == error.message
        assert (await site.get("runs"))["total"] == 0
    site.hub.refusal = None
    await site.start()


async def test_an_id_is_used_once(site: Site) -> None:
    await site.start()
    answer = await site.ask("POST", "session/runs", "session", {**BODY, "name": "other"})
    assert answer.status_code == 409 and "already" in said(answer)
    assert (await site.get(f"runs/{ID}"))["name"] == "rates"
    assert len(site.hub.begun) == 1
    answer = await site.ask("POST", "session/runs", "barbaras-session", BODY)
    assert answer.status_code == 202, "another user's ids are their own"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../etc"},
        {"name": "-x"},
        {"folder": "relative"},
        {"folder": "/home/ada/../barbara"},
        {"folder": "/a\nb"},
        {"source": "a\u202eb"},
        {"points": 0},
        {"points": 10_001},
        {"at_once": 1001},
        {"id": "x" * 8},
        {"user": "barbara"},
        {"memory": "$(id)"},
        {"environment": "a b"},
        {"after": "7"},
        {"notify": ["begin"]},
        {"notify": "end"},
        {"after": "12345678; id"},
    ],
    ids=ascii,
)
async def test_hostile_bodies_are_refused(site: Site, change: Any) -> None:
    answer = await site.ask("POST", "session/runs", "session", {**BODY, **change})
    assert answer.status_code == 400, answer.text
    (field,) = change
    assert field in said(answer)
    assert answer.json()["error"]["field"].startswith(field)
    assert site.hub.begun == [] and (await site.get("runs"))["total"] == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"points": 0}, "The 'points' of a run must be a whole number from 1 to 10,000."),
        ({"after": "7"}, "The 'after' of a run must be the id of another run of yours, or empty."),
        ({"gpus": -1}, "'gpus' must be a whole number, 0 or more; '-1' is not."),
        ({"gpus": "2"}, "'gpus' must be a whole number, 0 or more; '2' is not."),
        ({"gpus": True}, "'gpus' must be a whole number, 0 or more; 'True' is not."),
        ({"memory": {}}, "'memory' must be a size such as '4G'; '{}' is not."),
        (
            {"memory": "a\nb"},
            "'memory' must be a size such as '4G'; 'a\ufffdb' is not.",
        ),
        ({"memory": "much"}, "'memory' must be a size such as '4G'; 'much' is not."),
        ({"time": "0:00:30"}, "'time' must be a time such as '2:00:00'; '0:00:30' is not."),
        ({"kernel": "x"}, "'kernel' is not a known field. Remove it."),
    ],
)
async def test_a_wrong_field_is_told_in_words(site: Site, change: Any, sentence: str) -> None:
    """JupyterLab's dialog shows them beside the field."""
    answer = await site.ask("POST", "session/runs", "session", {**BODY, **change})
    assert (answer.status_code, said(answer)) == (400, sentence)
    assert answer.json()["error"]["field"] == next(iter(change))


async def test_what_is_no_object_is_no_run(site: Site) -> None:
    for body in ([], 7, "run"):
        answer = await site.ask("POST", "session/runs", "session", body)
        assert answer.status_code == 400 and "'only'" not in said(answer)


async def test_it_starts_after_another(site: Site) -> None:
    await site.start()
    later = f"6{ID[1:]}"
    await site.start(id=later, name="later", after=ID)
    _, (_, _, options) = site.hub.begun
    assert options["run"] == {**RUN, "id": later, "name": "later", "after": ID}
    item = await site.get(f"runs/{later}")
    assert (item["after"], item["after_name"]) == (ID, "rates")
    assert item["message"] == "The run is waiting for 'rates'."
    await site.parts.store.table(RunTable).end("ada", ID, 1.0)
    assert (await site.get(f"runs/{later}"))["message"] == ""
    await site.parts.store.table(RunTable).end(
        "ada", later, 2.0, "The run did not start, because of that."
    )
    item = await site.get(f"runs/{later}")
    assert item["message"] == "The run did not start, because of that."
    answer = await site.ask(
        "POST", "session/runs", "session", {**BODY, "id": f"7{ID[1:]}", "after": ID}
    )
    assert answer.status_code == 409 and "5 points did not succeed" in said(answer)
    answer = await site.ask("POST", "session/runs", "barbaras-session", {**BODY, "after": later})
    assert answer.status_code == 404, "another user's run"


async def test_mail_is_wanted_or_refused(site: Site) -> None:
    body = {**BODY, "notify": ["end", "failure"]}
    answer = await site.ask("POST", "session/runs", "session", body)
    assert answer.status_code == 409 and "This site sends no mail" in said(answer)
    assert site.hub.begun == [] and (await site.get("runs"))["total"] == 0
    notices = site.parts.notices
    notices.smtp_host, notices.address = "smtp.example.org", "{username}@example.org"
    site.hub.refusal = NotAllowed("No.")
    assert (await site.ask("POST", "session/runs", "session", body)).status_code == 403
    assert await site.parts.store.table(RunNoticeTable).of_run("ada", ID) == ()
    site.hub.refusal = None
    assert (await site.ask("POST", "session/runs", "session", body)).status_code == 202
    assert "notify" not in site.hub.begun[0][2]
    assert (await site.get(f"runs/{ID}"))["notify"] == ["end", "failure"]


# -- reports ---------------------------------------------------------------------------------------


async def test_points_report(site: Site) -> None:
    await site.start()
    more = {"cell": 3, "cells": 9, "metrics": {"loss": 0.25, "step": 7}, "job": "12_0"}
    assert (await site.report(**more)).is_success
    assert (await site.report(point=4, state="failed", message="ValueError: 'x'")).is_success
    item = await site.get(f"runs/{ID}")
    assert item["counts"] == {"waiting": 3, "running": 1, "succeeded": 0, "failed": 1, "lost": 0}
    assert (item["state"], item["metrics"]) == ("running", ["loss", "step"])
    found = await site.get(f"runs/{ID}/points")
    assert found["total"] == 5 and [point["number"] for point in found["items"]] == [*range(5)]
    first, last = found["items"][0], found["items"][-1]
    assert {name: first[name] for name in more} == more
    assert first["started_at"] and not first["ended_at"]
    assert (last["state"], last["message"]) == ("failed", "ValueError: 'x'")
    assert found["items"][1]["state"] == "waiting"
    failed = await site.get(f"runs/{ID}/points?state=failed")
    assert [point["number"] for point in failed["items"]] == [4]
    part = await site.get(f"runs/{ID}/points?sort=-number&offset=1&limit=2")
    assert [point["number"] for point in part["items"]] == [3, 2]


async def test_a_saved_point_waits_and_goes_on(site: Site) -> None:
    await site.start()
    await site.report(cell=3, cells=9, metrics={"loss": 0.5})
    saved = "Saved after 7 steps; waiting for the next job (1 of 5)."
    assert (await site.report(state="waiting", message=saved)).status_code == 200
    point = (await site.get(f"runs/{ID}/points?state=waiting"))["items"][0]
    assert (point["number"], point["message"], point["ended_at"]) == (0, saved, None)
    item = await site.get(f"runs/{ID}")
    assert item["counts"] == {"waiting": 5, "running": 0, "succeeded": 0, "failed": 0, "lost": 0}
    assert item["state"] == "waiting", "as all of its points do"
    await site.report(attempt=2, message="Resumed 1 time.")
    point = (await site.get(f"runs/{ID}/points?state=running"))["items"][0]
    assert (point["attempt"], point["message"]) == (2, "Resumed 1 time.")


@pytest.mark.parametrize(
    "change",
    [
        {"point": -1},
        {"point": 5},
        {"point": 10_000},
        {"point": "0"},
        {"state": "lost"},
        {"state": "lost"},
        {"cell": -1},
        {"message": "a" * 2001},
        {"message": "a\0b"},
        {"metrics": {str(number): 1.0 for number in range(51)}},
        {"metrics": {"a" * 101: 1.0}},
        {"metrics": {"loss": "low"}},
        {"metrics": {"loss": float("inf")}},
        {"parameters": {str(number): 1 for number in range(51)}},
        {"parameters": {"a" * 101: 1}},
        {"parameters": {"": 1}},
        {"parameters": {"a\u202eb": 1}},
        {"parameters": {"lr": "a" * 201}},
        {"parameters": {"lr": "a\nb"}},
        {"parameters": {"lr": [1]}},
        {"parameters": {"lr": float("nan")}},
        {"curves": {str(number): [] for number in range(21)}},
        {"curves": {"loss": [[1, 2]] * 201}},
        {"curves": {"loss": [[1, 2, 3]]}},
        {"curves": {"loss": [[1, float("nan")]]}},
        {"job": "12_0; id"},
        {"attempt": 0},
        {"run": ID},
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_hostile_reports_are_refused(site: Site, change: Any) -> None:
    await site.start()
    answer = await site.report(**change)
    assert answer.status_code == 400, answer.text
    assert said(answer).endswith(".")
    assert (await site.get(f"runs/{ID}"))["counts"]["waiting"] == 5


async def test_parameters_are_columns(site: Site) -> None:
    await site.start()
    for number, given in enumerate(({"lr": 0.5}, {"lr": "high"}, {"lr": -1, "fast": True})):
        assert (await site.report(point=number, parameters=given)).status_code == 200
    assert (await site.get(f"runs/{ID}"))["parameters"] == ["fast", "lr"]
    for sort, order in (("parameter", [2, 0, 1, 3, 4]), ("-parameter", [1, 0, 2, 3, 4])):
        found = await site.get(f"runs/{ID}/points?sort={sort}&parameter=lr")
        assert [point["number"] for point in found["items"]] == order
    point = await site.get(f"runs/{ID}/points/2")
    assert (point["number"], point["parameters"]) == (2, {"lr": -1, "fast": True})
    assert (await site.get(f"runs/{ID}/points/4"))["state"] == "waiting"
    answer = await site.ask("GET", f"runs/{ID}/points/5", "ada")
    assert (answer.status_code, said(answer)) == (404, "This run has points 0 to 4.")
    answer = await site.ask("GET", f"runs/{ID}/points/2", "barbara")
    assert answer.status_code == 404


async def test_curves_of_the_first_points(site: Site) -> None:
    await site.start()
    for number in range(4):
        pairs = [[step, number + 1 / (1 + step)] for step in range(3)]
        curves = {"loss": pairs} if number else {"other": pairs}
        more = {
            "metrics": {"loss": 3 - number},
            "curves": curves,
            "parameters": {"lr": 0.1 * number},
        }
        assert (await site.report(point=number, **more)).status_code == 200
    assert (await site.report(point=1, metrics={"loss": 2})).is_success, "curves stay"
    found = await site.get(f"runs/{ID}/curves?curve=loss&sort=metric&metric=loss&limit=2")
    assert found["total"] == 4 and [curve["number"] for curve in found["items"]] == [3, 2]
    assert found["items"][0]["pairs"] == [[0, 4], [1, 3.5], [2, pytest.approx(3 + 1 / 3)]]
    assert found["items"][0]["parameters"] == {"lr": pytest.approx(0.3)}
    found = await site.get(f"runs/{ID}/curves?curve=loss&state=running")
    assert [curve["number"] for curve in found["items"]] == [1, 2, 3], "the first has none"
    for wrong in ("", "?curve=", "?curve=loss&limit=101", "?curve=loss&offset=1"):
        assert (await site.ask("GET", f"runs/{ID}/curves{wrong}", "ada")).status_code == 400
    assert (await site.ask("GET", f"runs/{ID}/curves?curve=loss", "barbara")).status_code == 404


@pytest.mark.parametrize("token", ["session", "kernel", "ada", "barbaras-run", "nobody"])
async def test_only_the_run_s_own_job_reports(site: Site, token: str) -> None:
    await site.start()
    answer = await site.report(token, state="succeeded")
    assert answer.status_code == 403, answer.text
    assert (await site.get(f"runs/{ID}"))["counts"]["waiting"] == 5


async def test_a_report_that_waits_counts_with_its_size(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.start()
    monkeypatch.setattr("portal.work.run.reports._MOST_WAITING", 100)
    assert (await site.report()).is_success
    answer = await site.report(message="x" * 100)
    assert answer.status_code == 429 and "Send this one later" in answer.text


async def test_a_run_that_has_ended_takes_no_report(site: Site) -> None:
    await site.start()
    await site.report()
    run = await site.parts.store.table(RunTable).get("ada", ID)
    assert run is not None
    await site.parts.store.table(RunTable).end("ada", ID, 1.0)
    site.parts.parts_for(RunParts).reports.forget(run)
    answer = await site.report(state="succeeded")
    assert answer.status_code == 409 and said(answer) == "This run has already ended."
    assert (await site.get(f"runs/{ID}"))["state"] == "ended"


async def test_a_run_that_the_hub_launched_by_itself_is_added(site: Site) -> None:
    options = {"environment": "torch", "gpus": 1, "run": RUN}
    record = a_record("9", SERVER, environment="torch", options=options)
    await site.parts.store.sessions.save(record)
    assert (await site.report()).is_success
    item = await site.get(f"runs/{ID}")
    assert (item["name"], item["environment"], item["job_id"]) == ("rates", "torch", "19")
    assert item["resources"] == {"gpus": 1} and item["counts"]["running"] == 1


async def test_a_thousand_reports_are_few_transactions(site: Site) -> None:
    await site.start(points=1000)
    saved: list[int] = []
    save = site.parts.store.table(RunPointTable).save

    async def counted(points: Any) -> None:
        saved.append(len(points))
        await save(points)

    site.parts.store.table(RunPointTable).save = counted  # type: ignore[method-assign]
    answers = await asyncio.gather(*(site.report(point=number) for number in range(300)))
    assert {answer.status_code for answer in answers} == {200}
    assert sum(saved) == 300 and len(saved) < 150
    assert (await site.get(f"runs/{ID}"))["counts"]["running"] == 300


# -- what the user sees and does -------------------------------------------------------------------


async def test_runs_are_their_user_s_own(site: Site) -> None:
    await site.start()
    for token in ("barbara", "barbaras-session"):
        assert (await site.get("runs", token))["total"] == 0
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/points")):
            answer = await site.ask(method, f"runs/{ID}{path}", token)
            assert (answer.status_code, said(answer)) == (404, "You have no such run.")
    assert site.hub.stopped == []
    assert (await site.get("runs", "session"))["total"] == 1


@pytest.mark.parametrize("token", ["ada", "session"])
async def test_a_run_is_stopped(site: Site, token: str) -> None:
    await site.start()
    answer = await site.ask("DELETE", f"runs/{ID}", token)
    assert (answer.status_code, said(answer)) == (200, "The run is being stopped.")
    assert site.hub.stopped == [("ada", SERVER, "ada")]
    assert ("ada", "stop-run", f"run {ID}", "done") in await site.audit()


async def test_one_that_has_ended_is_not_stopped(site: Site) -> None:
    await site.start()
    await site.parts.store.table(RunTable).end("ada", ID, 1.0)
    answer = await site.ask("DELETE", f"runs/{ID}", "ada")
    assert (answer.status_code, said(answer)) == (409, "This run has already ended.")
    assert site.hub.stopped == []


async def test_it_says_why_it_waits_and_how_it_ended(site: Site) -> None:
    await site.start()
    options = {"environment": "torch", "run": RUN}
    record = a_record("9", SERVER, options=options, state=SessionState.PENDING)
    await site.parts.store.sessions.save(record)
    site.cluster.sessions["19_[0-4%2]"] = record
    site.cluster.jobs["19_[0-4%2]"] = JobItem(
        id="19_[0-4%2]", state="PENDING", words="waits for its turn", nodes=()
    )
    item = await site.get(f"runs/{ID}")
    assert (item["state"], item["message"]) == ("waiting", "Job 19: waits for its turn.")
    site.cluster.sessions.clear()
    site.cluster.jobs.clear()
    end = {"state": SessionState.ENDED, "ended_at": 9.0, "ending_code": "finished"}
    words = "The run has finished: 5 points completed."
    await site.parts.store.sessions.save(record.model_copy(update={**end, "ending_message": words}))
    assert (await site.get(f"runs/{ID}"))["message"] == words


@pytest.mark.parametrize("path", ["runs/x", "runs/12", "runs/..%2f", f"runs/{ID}0000000000/points"])
async def test_other_addresses(site: Site, path: str) -> None:
    assert (await site.ask("GET", path, "ada")).status_code == 404


# -- searches --------------------------------------------------------------------------------------

SEARCH = {
    "parameters": [
        {"name": "lr", "kind": "float", "low": 1e-5, "high": 0.1, "log": True},
        {"name": "opt", "kind": "choice", "choices": ["adam", "sgd"]},
    ],
    "metric": "loss",
    "direction": "minimize",
    "seed": 1,
}


async def parameters(site: Site, point: int, token: str = "run") -> Any:
    answer = await site.ask("POST", "session/points/ask", token, {"point": point})
    assert answer.status_code == 200, answer.text
    return answer.json()["parameters"]


async def test_a_search_chooses_the_parameters_of_its_points(site: Site) -> None:
    await site.start(search=SEARCH)
    assert site.hub.begun[0][2]["run"] == RUN, "the Hub need not know"
    found = await site.get(f"runs/{ID}")
    assert found["search"] == {
        "parameters": ["lr", "opt"], "metric": "loss", "direction": "minimize", "best": None
    }  # fmt: skip
    first, *others = await asyncio.gather(*(parameters(site, point) for point in range(4)))
    assert len({each["lr"] for each in (first, *others)}) == 4, "those at once differ"
    assert all(1e-5 <= each["lr"] <= 0.1 and each["opt"] in ("adam", "sgd") for each in others)
    # Of another service, after this one was killed; and of a point that Slurm runs again.
    site.parts.parts_for(RunParts).searches = type(site.parts.parts_for(RunParts).searches)(
        site.parts.store
    )
    assert await parameters(site, 0) == first
    assert (
        await asyncio.gather(*(parameters(site, 4) for _ in range(3)))
        == [await parameters(site, 4)] * 3
    )
    for point, state, metrics in (
        (0, "succeeded", {"loss": 0.5}), (1, "succeeded", {"loss": 0.25, "step": 3}),
        (2, "failed", {"loss": 0.1}), (3, "running", {"loss": 0.1}), (4, "succeeded", {}),
    ):  # fmt: skip
        assert (await site.report(point=point, state=state, metrics=metrics)).is_success
    best = (await site.get(f"runs/{ID}"))["search"]["best"]
    assert best == {"point": 1, "value": 0.25, "parameters": others[0]}


async def test_questions_that_are_refused(site: Site) -> None:
    await site.start()
    answer = await site.ask("POST", "session/points/ask", "run", {"point": 0})
    assert answer.status_code == 404 and said(answer) == "This run has no search."
    assert (await site.get(f"runs/{ID}"))["search"] is None
    for token in ("session", "kernel", "ada", "barbaras-run", "nobody"):
        answer = await site.ask("POST", "session/points/ask", token, {"point": 0})
        assert answer.status_code == 403, answer.text
    for point in (-1, 5, "0", None):
        answer = await site.ask("POST", "session/points/ask", "run", {"point": point})
        assert answer.status_code == 400, answer.text
    await site.parts.store.table(RunTable).end("ada", ID, time.time())
    site.parts.parts_for(RunParts).reports.forget(
        await site.parts.store.table(RunTable).get("ada", ID)
    )
    answer = await site.ask("POST", "session/points/ask", "run", {"point": 0})
    assert answer.status_code == 409, answer.text


async def test_a_refused_search_leaves_nothing(site: Site) -> None:
    site.hub.refusal = NotAllowed("You have 20 runs.")
    answer = await site.ask("POST", "session/runs", "session", {**BODY, "search": SEARCH})
    assert answer.status_code == 403
    assert await site.parts.store.table(RunSearchTable).get(("ada", ID)) is None
    site.hub.refusal = None
    await site.start(search=SEARCH)
    kept = await site.parts.store.table(RunSearchTable).get(("ada", ID))
    for change in ({"search": {**SEARCH, "seed": 7}}, {"search": SEARCH, "points": 4}):
        answer = await site.ask("POST", "session/runs", "session", {**BODY, **change})
        assert answer.status_code == 409, answer.text
        assert await site.parts.store.table(RunSearchTable).get(("ada", ID)) == kept is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": 1001}, "A search has at most 1,000 points"),
        ({"search": {}}, "search"),
        ({"search": {**SEARCH, "direction": "up"}}, "search"),
        ({"search": {**SEARCH, "metric": ""}}, "search"),
        ({"search": {**SEARCH, "parameters": SEARCH["parameters"] * 2}}, "search"),
        ({"search": {**SEARCH, "seed": -1}}, "search"),
    ],
)
async def test_searches_that_are_refused(site: Site, change: Any, words: str) -> None:
    body = {**BODY, "search": SEARCH, **change}
    answer = await site.ask("POST", "session/runs", "session", body)
    assert answer.status_code == 400 and words in said(answer), answer.text
    assert site.hub.begun == [] and (await site.get("runs"))["total"] == 0
