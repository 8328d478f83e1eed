"""Parts of the form of a new run: the Hub passes them to a user's session, and nothing else. The
session's routes are those of JupyterLab's dialog."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from jupyter_server.auth.authorizer import AllowAllAuthorizer
from portal_session.runs.lab import handlers
from served import served
from tornado.web import Application, RequestHandler

from spawners import session_server
from spawners.api.run_form import MAX_BODY, RunFormHandler


class Contents(RequestHandler):
    """Jupyter's own route of files: it answers what it was asked."""

    def get(self) -> None:
        self.finish(json.dumps({"uri": self.request.uri, **dict(self.request.headers.get_all())}))


class Site:
    """The Hub's route, and the server of ada's session."""

    def __init__(self, client: httpx.AsyncClient, hub: Any) -> None:
        self.client, self.hub = client, hub

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body)
        answer = await self.client.request(method, f"run-form/{path}", content=content)
        return answer.status_code, answer.json()


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    (tmp_path / "a b.py").write_text("print('on')\n")
    monkeypatch.setattr(session_server, "_token", lambda *_: contextlib.nullcontext("secret"))
    monkeypatch.setattr(session_server, "client_tls", lambda _: None)
    monkeypatch.setattr(handlers._Handler, "get_current_user", lambda _: "ada")
    monkeypatch.setattr(handlers._Handler, "check_xsrf_cookie", lambda _: None)
    monkeypatch.setattr(handlers._Handler, "prepare", lambda _: None)
    routes = handlers.routes("/user/ada/", lambda *_: {"items": []}, tmp_path)
    session = Application(
        [*routes, (r"/user/ada/api/contents.*", Contents)], authorizer=AllowAllAuthorizer()
    )
    rows = {"": SimpleNamespace(name="", state={"work": "jupyterlab"})}
    rows["course-deep"] = SimpleNamespace(
        name="course-deep",
        state={"work": "jupyterlab", "space": "deep"},
        user_options={"course": "deep"},
    )
    rows["proteins"] = SimpleNamespace(
        name="proteins",
        state={"work": "jupyterlab", "space": "proteins"},
        user_options={"project": "proteins"},
    )
    rows["kernel-5e2f3c1a"] = SimpleNamespace(name="kernel-5e2f3c1a", state={"work": "kernel"})
    async with served(session) as server:
        url = f"http://127.0.0.1:{server.port}/user/ada/"
        spawner = SimpleNamespace(
            ready=True,
            server=SimpleNamespace(url=url),
            log=logging.getLogger("test"),
            _log_name="ada",
        )
        spawners = dict.fromkeys(rows, spawner)
        ada = SimpleNamespace(orm_user=SimpleNamespace(orm_spawners=rows), spawners=spawners)

        async def prepare(handler: Any) -> None:
            """Leave out the login, which spawners/api/moves.py demands."""

        monkeypatch.setattr(RunFormHandler, "prepare", prepare)
        monkeypatch.setattr(RunFormHandler, "find_user", lambda _, name: {"ada": ada}.get(name))
        monkeypatch.setattr(RunFormHandler, "set_default_headers", lambda _: None)
        hub = Application(
            [(r"/run-form/([a-z]+)/([^/]+)/([^/]*)", RunFormHandler)],
            db=SimpleNamespace(dirty=False, new=(), deleted=()),
        )
        async with served(hub) as hub_server:
            base = f"http://127.0.0.1:{hub_server.port}/"
            async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
                yield Site(client, spawner)


async def test_the_session_answers(site: Site) -> None:
    assert await site.ask("GET", "choices/ada/") == (
        200,
        {"status": 200, "content": {"items": []}},
    )
    # A session of a project is its user's own.
    assert (await site.ask("GET", "choices/ada/proteins"))[0] == 200
    sha256 = hashlib.sha256(b"print('on')\n").hexdigest()
    facts = {"name": "a-b", "sha256": sha256, "parameters": None}
    assert await site.ask("GET", f"source/ada/?path={quote('a b.py')}") == (
        200,
        {"status": 200, "content": facts},
    )
    body = {"source": "a b.py", "values": {"lr": "1,2"}}
    assert await site.ask("POST", "points/ada/", body) == (
        200,
        {"status": 200, "content": {"points": 2}},
    )
    status, answer = await site.ask("GET", "source/ada/?path=gone.py")
    assert (status, answer["status"], answer["content"]["field"]) == (200, 400, "source")


async def test_files_are_listed_with_the_token_of_the_session_alone(site: Site) -> None:
    _, answer = await site.ask("GET", f"files/ada/?path={quote('/a b/../c?x')}")
    asked = answer["content"]
    assert asked["uri"] == "/user/ada/api/contents/a%20b/c%3Fx?type=directory&content=1"
    assert asked["Authorization"] == "token secret"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "start/ada/"),
        ("POST", "choices/ada/"),
        ("GET", "shutdown/ada/"),
        ("GET", "choices/ada/other"),
        ("GET", "choices/ada/course-deep"),
        ("GET", "choices/ada/kernel-5e2f3c1a"),
        ("GET", "choices/barbara/"),
    ],
)
async def test_what_there_is_not(site: Site, method: str, path: str) -> None:
    status, _ = await site.ask(method, path, {} if method == "POST" else None)
    assert status == 404


async def test_a_session_that_does_not_answer(site: Site) -> None:
    site.hub.server = SimpleNamespace(url="http://127.0.0.1:1/user/ada/")
    status, answer = await site.ask("GET", "choices/ada/")
    assert status == 503 and "Your session does not answer." in answer["message"]
    site.hub.ready = False
    assert (await site.ask("GET", "choices/ada/"))[0] == 404


@pytest.mark.parametrize("body", [[], "text", {"source": "x" * MAX_BODY}])
async def test_a_body_that_is_none(site: Site, body: Any) -> None:
    assert (await site.ask("POST", "points/ada/", body))[0] == 400
