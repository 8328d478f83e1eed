"""Outputs of points: from their own job, to their own user, bounded; and kept kernels."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fake_hub import FakeHub
from session_endpoints import of_server, parts_on, person, said, served
from session_records import recorded

from portal.errors import NotFound
from portal.models.session.run import Run
from portal.models.session.run_output import LARGEST, MOST_QUESTIONS
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.run.endpoints import outputs, reports, tensorboard
from portal.work.run.tables import outputs as table
from portal.work.run.tables.outputs import RunOutputTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
TOKENS = {
    "session": of_server("ada"),
    "run": of_server("ada", SERVER),
    "barbaras-run": of_server("barbara", SERVER),
    "ada": person("ada"),
    "barbara": person("barbara"),
}
LOG = {"log": "step 1\n"}
OUTPUT = f"runs/{ID}/points/2/output"
KERNEL = f"runs/{ID}/points/2/kernel"
RUN = Run(
    id=ID,
    name="rates",
    source="work/train.ipynb",
    folder="/home/ada/projects/runs/rates",
    points=5,
    keep_failed=True,
    user="ada",
    server=SERVER,
    environment="torch",
    created_at=time.time(),
)


class Dashboard:
    """The cluster's view: the living sessions."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionRecord] = {}
        self.view = SimpleNamespace(sessions=self.sessions, jobs={})

    def write_sample(self, server: str = "", **more: Any) -> None:
        values = {"state": SessionState.RUNNING, "submitted_at": 5.0, **more}
        record = recorded(id=f"of-{server}", user="ada", server=server, **values)
        self.sessions[record.id] = record

    async def refreshed(self) -> None:
        pass


class Catalog:
    """Catalog with the environment of the run, unless it is ``gone``."""

    gone = False

    async def load(self) -> None:
        pass

    def get(self, name: str, person: Any) -> None:
        if self.gone or name != "torch":
            raise NotFound("There is no such environment.")


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Any) -> None:
        self.client, self.store = client, parts.store
        self.dashboard, self.hub, self.catalog = parts.dashboard, parts.hub, parts.catalog

    async def ask(self, method: str, path: str, token: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        return await self.client.request(method, path, content=content, headers=headers)

    async def send(self, token: str = "run", **more: Any) -> httpx.Response:
        body = {"point": 2, "state": "running", "output": LOG, **more}
        return await self.ask("POST", "session/points/output", token, body)

    async def sent(self, **more: Any) -> Any:
        answer = await self.send(**more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def shown(self, path: str = OUTPUT, token: str = "ada") -> Any:
        answer = await self.ask("GET", path, token)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.table(RunTable).add_run(RUN)
    parts = parts_on(store, dashboard=Dashboard(), hub=FakeHub(running={}), catalog=Catalog())
    kinds = (*reports.ENDPOINTS, *outputs.ENDPOINTS, *tensorboard.ENDPOINTS)
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts)


async def test_reports_say_whether_somebody_looks(site: Site) -> None:
    for point, watched in ((2, False), (2, True), (3, False)):
        if watched:
            await site.shown()
        body = {"point": point, "state": "running"}
        answer = await site.ask("POST", "session/points", "run", body)
        assert answer.json() == {"watched": watched}


async def test_the_output_of_a_watched_point(site: Site) -> None:
    opener = "/user/ada/portal/runs/open"
    assert await site.shown() == {"output": None, "at": None, "kernel": None, "opener": opener}
    answer = await site.sent(output=None)
    assert (answer["watched"], answer["missing"]) == (True, True)
    answer = await site.sent()
    assert (answer["watched"], answer["missing"]) == (True, False)
    shown = await site.shown()
    assert shown["output"]["log"] == "step 1\n" and shown["at"] <= time.time()
    assert (await site.shown(f"runs/{ID}/points/1/output"))["output"] is None


async def test_the_log_of_a_rank_is_asked_for(site: Site) -> None:
    await site.shown(f"{OUTPUT}?rank=3")
    assert (await site.sent(output={**LOG, "ranks": 4}))["rank"] == 3
    assert (await site.shown(f"{OUTPUT}?rank=3"))["output"]["rank"] == 0, "until its own comes"
    await site.sent(output={"log": "of rank 3", "rank": 3, "ranks": 4})
    shown = (await site.shown(f"{OUTPUT}?rank=3"))["output"]
    assert (shown["log"], shown["rank"], shown["ranks"]) == ("of rank 3", 3, 4)
    await site.shown()
    assert (await site.sent(output=None))["rank"] == 0
    for wrong in ("-1", "x", "1000000"):
        answer = await site.ask("GET", f"{OUTPUT}?rank={wrong}", "ada")
        assert answer.status_code == 400, answer.text


async def test_only_the_last_output_of_a_failed_point_is_stored(site: Site) -> None:
    cell = {"kind": "code", "cell": 3, "state": "failed", "source": "1 / 0", "output": "E\x1b[1m"}
    for state, last in (("running", False), ("succeeded", True), ("failed", False)):
        await site.sent(state=state, last=last)
        assert await site.store.table(RunOutputTable).get(("ada", ID), 2) is None
    await site.sent(state="failed", last=True, output={"cells": [cell], "left_out": 4})
    stored = await site.store.table(RunOutputTable).get(("ada", ID), 2)
    assert stored is not None and stored.output.left_out == 4
    assert stored.output.cells[0].output == "E\ufffd[1m", "no control characters"


async def test_a_stored_output_is_shown_later(site: Site) -> None:
    await site.sent(state="failed", last=True)
    await site.store.table(RunTable).end("ada", ID, 1.0)
    assert (await site.shown())["output"]["log"] == "step 1\n"


async def test_a_later_attempt_replaces_an_earlier_one(site: Site) -> None:
    for attempt, log in ((2, "second"), (1, "first")):
        await site.sent(state="failed", last=True, attempt=attempt, output={"log": log})
    assert (await site.shown())["output"]["log"] == "second"


async def test_the_stored_outputs_of_a_run_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MOST", 2)
    for point in (0, 1, 2, 1):
        await site.sent(point=point, state="failed", last=True, output={"log": str(point)})
    found = [await site.store.table(RunOutputTable).get(("ada", ID), number) for number in range(3)]
    assert [kept and kept.output.log for kept in found] == ["0", "1", None]


async def test_stored_outputs_are_pruned_with_their_run(site: Site) -> None:
    await site.sent(state="failed", last=True)
    await site.store.table(RunTable).end("ada", ID, 1.0)
    assert await site.store.table(RunPointTable).prune(2.0) == 1
    assert await site.store.table(RunOutputTable).get(("ada", ID), 2) is None


@pytest.mark.parametrize(
    "change",
    [
        {"point": 5},
        {"point": -1},
        {"state": "lost"},
        {"output": "text"},
        {"output": {"log": 7}},
        {"output": {"log": "x" * 160_001}},
        {"output": {"html": "<b>"}},
        {"output": {"cells": [{"kind": "html", "state": "done", "source": ""}]}},
        {"kept_until": -1},
        {"kept_until": "soon"},
        {"answers": [{"id": 1, "text": ""}] * (MOST_QUESTIONS + 1)},
        {"more": "x" * LARGEST},
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_hostile_outputs_are_refused(site: Site, change: Any) -> None:
    await site.shown()
    answer = await site.send(**change)
    assert answer.status_code in (400, 413), answer.text
    assert said(answer).endswith(".")
    assert (await site.shown())["output"] is None


@pytest.mark.parametrize("token", ["session", "ada", "barbaras-run", "nobody"])
async def test_only_the_run_s_own_job_sends(site: Site, token: str) -> None:
    await site.shown()
    assert (await site.send(token)).status_code == 403
    assert (await site.shown())["output"] is None


async def test_only_the_run_s_user_looks_and_asks(site: Site) -> None:
    await site.sent(state="failed", last=True, kept_until=time.time() + 600)
    asked = [("GET", OUTPUT, None), ("POST", KERNEL, {"code": "loss"}), ("DELETE", KERNEL, None)]
    for method, path, body in asked:
        answer = await site.ask(method, path, "barbara", body)
        assert answer.status_code == 404, answer.text
        other = path.replace("/2/", "/5/")
        answer = await site.ask(method, other, "ada", body)
        assert (answer.status_code, said(answer)) == (404, "This run has points 0 to 4.")
        assert (await site.ask(method, path, "run", body)).status_code == 403


async def test_a_kept_kernel_is_asked_and_ended(site: Site) -> None:
    answer = await site.ask("POST", KERNEL, "ada", {"code": "loss"})
    assert answer.status_code == 409
    assert said(answer) == "The kernel of this point was not kept, or has ended."
    until = time.time() + 600
    await site.sent(state="failed", last=True, kept_until=until)
    assert (await site.shown())["kernel"] == {"until": until, "asked": []}
    answer = await site.ask("POST", KERNEL, "ada", {"code": "loss"})
    assert answer.status_code == 202 and answer.json() == {"id": 1, "code": "loss", "text": None}
    answer = await site.sent(state="failed", output=None, kept_until=until)
    assert answer["questions"] == [{"id": 1, "code": "loss"}]
    told = [{"id": 1, "text": "0.5"}]
    answer = await site.sent(state="failed", output=None, kept_until=until, answers=told)
    assert answer["questions"] == [] and answer["end"] is False
    assert (await site.shown())["kernel"]["asked"] == [{"id": 1, "code": "loss", "text": "0.5"}]
    answer = await site.ask("DELETE", KERNEL, "ada")
    assert said(answer) == "The kernel is being ended."
    assert (await site.shown())["kernel"] is None
    answer = await site.sent(state="failed", output=None, kept_until=until)
    assert answer["end"] is True
    entries, _ = await site.store.audit.find()
    assert [(entry.action, entry.detail) for entry in entries] == [("end-point-kernel", "Point 2.")]


@pytest.mark.parametrize("code", ["", "x" * 4001, 7, "a\0b"], ids=lambda code: ascii(code)[:20])
async def test_hostile_code_is_refused(site: Site, code: Any) -> None:
    await site.sent(state="failed", last=True, kept_until=time.time() + 600)
    assert (await site.ask("POST", KERNEL, "ada", {"code": code})).status_code == 400
    assert (await site.shown())["kernel"]["asked"] == []


async def test_files_are_opened_in_a_session_that_runs(site: Site) -> None:
    site.dashboard.write_sample("new", state=SessionState.PENDING, submitted_at=9.0)
    site.dashboard.write_sample("tensorboard", options={"tensorboard": ["~"]}, submitted_at=9.0)
    site.dashboard.write_sample("course-deep", options={"course": "deep"}, submitted_at=9.0)
    assert (await site.shown())["opener"] == "/user/ada/portal/runs/open"
    site.dashboard.write_sample("old", submitted_at=1.0)
    site.dashboard.write_sample("second", submitted_at=2.0)
    assert (await site.shown())["opener"] == "/user/ada/second/portal/runs/open"


async def test_files_of_a_course_s_run_are_seen_in_the_course_s_session_alone(site: Site) -> None:
    await site.store.table(RunTable).remove("ada", ID)
    await site.store.table(RunTable).add_run(RUN.model_copy(update={"course": "deep"}))
    site.dashboard.write_sample(submitted_at=9.0)
    site.dashboard.write_sample("room-deep", options={"course": "deep"}, submitted_at=9.0)
    address = "/user/ada/course-deep/portal/runs/open"
    assert (await site.shown())["opener"] == address
    site.dashboard.write_sample("course-deep", options={"course": "deep"})
    assert (await site.shown())["opener"] == address
    answer = await site.ask("POST", f"runs/{ID}/tensorboard", "ada", {})
    words = (
        "Only sessions of the course 'deep' can read the files of this run. "
        "Open TensorBoard in your course session."
    )
    assert (answer.status_code, said(answer)) == (403, words)
    assert site.hub.begun == []


async def test_tensorboard_shows_the_folder_of_a_run(site: Site) -> None:
    path = f"runs/{ID}/tensorboard"
    answer = await site.ask("POST", path, "ada", {})
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"url": "/hub/spawn-pending/ada/tensorboard"}
    options = {"environment": "torch", "tensorboard": [RUN.folder]}
    assert site.hub.begun == [("ada", "tensorboard", options)]
    site.dashboard.write_sample("tensorboard", options=options)
    answer = await site.ask("POST", path, "ada", {})
    assert answer.json() == {"url": "/user/ada/tensorboard/"}, "it runs already"
    site.dashboard.write_sample(
        "tensorboard", options={**options, "tensorboard": ["/home/ada/logs"]}
    )
    assert (await site.ask("POST", path, "ada", {})).status_code == 409, "for other logs"
    assert (await site.ask("POST", path, "barbara", {})).status_code == 404
    site.catalog.gone = True
    answer = await site.ask("POST", path, "ada", {})
    assert answer.status_code == 404 and "no longer available" in said(answer)
