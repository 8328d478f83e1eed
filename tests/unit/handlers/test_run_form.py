"""Form of a new run: only sessions of the user's own that run are asked, and only for its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fake_hub import FakeHub
from session_endpoints import parts_on, person, said, served
from session_records import recorded

from portal.errors import InvalidRequest
from portal.models.session.run import Run
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.run.endpoints import form
from portal.work.run.tables.runs import RunTable

RUNS, WAITS = SessionState.RUNNING, SessionState.PENDING
RECORDS = (
    recorded(id="s1", user="ada", submitted_at=1.0, state=RUNS, environment="lab"),
    recorded(id="s2", user="ada", server="big", submitted_at=2.0, state=RUNS, environment="lab"),
    recorded(id="s3", user="ada", server="waits", submitted_at=3.0, state=WAITS),
    recorded(id="s4", user="ada", server="kernel-5e2f3c1a", submitted_at=4.0, state=RUNS),
    recorded(id="s5", user="ada", server="course-deep", submitted_at=5.0, state=RUNS, space="deep"),
    recorded(id="s6", user="barbara", submitted_at=6.0, state=RUNS),
    recorded(id="s7", user="ada", server="edit", submitted_at=7.0, state=RUNS, work="marimo"),
    recorded(id="s8", user="ada", server="run-5e2f3c1a0b7d4c8e9a6f", submitted_at=8.0, state=RUNS),
)


class Hub(FakeHub):
    """Hub whose sessions answer the same to all."""

    def __init__(self) -> None:
        super().__init__(running={})
        self.forms: list[Any] = []
        self.refused: Exception | None = None

    async def ask_run_form(
        self, user: str, server: str, part: str, query: Any, body: Any = None
    ) -> dict[str, Any]:
        self.forms.append((user, server, part, query, body))
        if self.refused is not None:
            raise self.refused
        return {"name": "train"}


class Site:
    def __init__(self, client: httpx.AsyncClient, hub: Hub) -> None:
        self.client, self.hub = client, hub

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": "token ada"}
        return await self.client.request(method, path, json=body, headers=headers)


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    await store.sessions.save(*RECORDS)
    values = {"folder": "/home/ada/runs/x", "points": 1, "server": "run-1", "environment": "lab"}
    for number, source in enumerate(("old.py", "/home/ada/new.ipynb")):
        run = {"id": f"{number:08x}", "name": "x", "source": source, "created_at": float(number)}
        await store.table(RunTable).add_run(Run.model_validate({**values, **run, "user": "ada"}))
    hub = Hub()

    async def refreshed() -> None:
        pass

    dashboard = SimpleNamespace(refreshed=refreshed, view=None)
    parts = parts_on(store, hub=hub, dashboard=dashboard)
    tokens = {"ada": person("ada")}
    async with served(form.ENDPOINTS, parts, tokens.get, logins=True) as client:
        yield Site(client, hub)


async def test_what_can_start_a_run(site: Site) -> None:
    answer = (await site.ask("GET", "run-form")).json()
    assert [session["id"] for session in answer["sessions"]] == ["s2", "s1"]
    assert answer["sessions"][0]["dialog"].endswith("/user/ada/big/lab?portal-run=new")
    assert answer["sources"] == ["/home/ada/new.ipynb", "old.py"]


async def test_the_session_reads_the_file_and_starts_the_run(site: Site) -> None:
    query = {"path": "work/a b.py", "first_cell": "1"}
    answer = await site.ask("GET", "run-form/s2/source?path=work/a%20b.py&first_cell=1")
    assert answer.json() == {"answer": {"name": "train"}}
    asked = {"source": "a.py", "resources": {"gpus": 1}}
    answer = await site.ask("POST", "run-form/s1/ask/start", {"asked": asked})
    assert answer.status_code == 200, answer.text
    assert site.hub.forms == [
        ("ada", "big", "source", query, None),
        ("ada", "", "start", {}, asked),
    ]


async def test_a_refusal_has_its_field(site: Site) -> None:
    site.hub.refused = InvalidRequest("'lr' is a number.", "values:lr")
    answer = await site.ask("POST", "run-form/s1/ask/points", {"asked": {}})
    assert answer.status_code == 400 and said(answer) == "'lr' is a number."
    assert answer.json()["error"]["field"] == "values:lr"


@pytest.mark.parametrize("session", ["s3", "s4", "s5", "s6", "s7", "s8", "nothing"])
async def test_no_other_session_is_asked(site: Site, session: str) -> None:
    for method, path in (("GET", "choices"), ("POST", "ask/start")):
        body = {"asked": {}} if method == "POST" else None
        answer = await site.ask(method, f"run-form/{session}/{path}", body)
        assert answer.status_code == 404, path
    assert site.hub.forms == []


@pytest.mark.parametrize("path", ["run-form/s1/start", "run-form/s1/points", "run-form/s1/stop"])
async def test_no_other_part_is_read(site: Site, path: str) -> None:
    assert (await site.ask("GET", path)).status_code == 404
    assert site.hub.forms == []
