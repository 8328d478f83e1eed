"""What JupyterLab may ask of its session's server: a real jupyter_server, and a service on loopback
that answers what a test tells it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from machine import patience
from machine_clock import awake
from portal_session import local_api, service, situation
from portal_session.service import Address, ServiceError
from portal_session.situation import CachedValue, Situations
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from portal.models.situation import Situation

TOKEN = "the-sessions-own-token"
LOGIN = "the-login-of-this-server"
NOW = 1_800_000_000.0
SITUATION = Situation(
    now=NOW,
    session_id="s1",
    job_id="7",
    user="ada",
    environment="lab",
    taken_at=NOW,
    ends_at=NOW + 600,
).model_dump(mode="json")


class TheService:
    """The portal's service, played. ``answer`` writes the answer of a request."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any, str]] = []
        self.answer: Callable[[RequestHandler], Any] = lambda handler: handler.finish(SITUATION)
        listening, self.port = bind_unused_port()
        self._start(listening)

    def _start(self, listening: Any) -> None:
        self._server = HTTPServer(Application([("/services/portal/(.*)", _Any, {"played": self})]))
        self._server.add_socket(listening)

    async def stop(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()

    def start_again(self) -> None:
        listening, _ = bind_unused_port(address="127.0.0.1")
        listening.close()
        self._server = HTTPServer(Application([("/services/portal/(.*)", _Any, {"played": self})]))
        self._server.listen(self.port, "127.0.0.1")


class _Any(RequestHandler):
    def initialize(self, played: TheService) -> None:
        self.played = played

    async def prepare(self) -> None:
        request = self.request
        body = json.loads(request.body) if request.body else None
        token = request.headers.get("Authorization", "")
        self.played.asked.append((request.method or "", self.path_args[0], body, token))
        answered = self.played.answer(self)
        if asyncio.iscoroutine(answered):
            await answered


class Server:
    """A running jupyter_server, asked as a browser with the login's token does it."""

    def __init__(self, app: Any, port: int) -> None:
        self.app = app
        self.url = f"http://127.0.0.1:{port}/user/ada/portal/"

    async def ask(
        self, path: str, method: str = "GET", body: Any = None, login: str | None = LOGIN
    ) -> HTTPResponse:
        if not isinstance(body, (bytes, type(None))):
            body = json.dumps(body).encode()
        request = HTTPRequest(
            self.url + path,
            method=method,
            body=body,
            headers={"Authorization": f"token {login}"} if login else {},
            allow_nonstandard_methods=True,
            request_timeout=20,
        )
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    async def situation(self) -> dict[str, Any]:
        answer = await self.ask("situation")
        assert answer.code == 200, answer.body
        return json.loads(answer.body)


@pytest.fixture
async def played() -> AsyncIterator[TheService]:
    service = TheService()
    yield service
    await service.stop()


@pytest.fixture
def fresh() -> float:
    """Seconds for which one answer of the portal serves everybody."""
    return 0.05


@pytest.fixture
async def server(played, fresh, tmp_path, monkeypatch) -> AsyncIterator[Server]:
    serverapp = pytest.importorskip("jupyter_server.serverapp")
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("PORTAL_SERVICE_URL", f"http://127.0.0.1:{played.port}/services/portal/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", TOKEN)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")  # nobody is there: it is not to be used
    monkeypatch.setattr(situation, "FRESH", fresh)
    monkeypatch.setattr(situation, "LONGEST_WAIT", 0.2)
    monkeypatch.setattr(service, "TIMEOUT", 5.0)
    app = serverapp.ServerApp(
        base_url="/user/ada/",
        root_dir=str(tmp_path),
        token=LOGIN,
        allow_root=True,
        open_browser=False,
        jpserver_extensions={"portal_session.local_api": True},
    )
    app.init_signal = lambda: None
    app.find_server_extensions = lambda: None  # not those of this machine
    app.initialize(argv=[], new_httpserver=False)
    web = HTTPServer(app.web_app)
    listening, port = bind_unused_port()
    web.add_socket(listening)
    yield Server(app, port)
    web.stop()
    await web.close_all_connections()


async def until(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """What the coroutine ``look`` brings once ``wanted`` likes it."""
    deadline = time.monotonic() + patience(20)
    while True:
        found = await look()
        if wanted(found):
            return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


# -- How it stands --------------------------------------------------------------------------------


async def test_the_situation_is_the_portals_and_the_nodes_own(server, played) -> None:
    found = await server.situation()
    assert set(found) == {"situation", "at", "age", "error", "failing", "local", "guest"}
    assert Situation.model_validate(found["situation"]).ends_at == NOW + 600
    assert found["error"] == "" and found["failing"] is None and 0 <= found["age"] < 20
    assert set(found["local"]) == {"gpus", "memory_used", "memory_limit"}
    method, path, body, authorization = played.asked[0]
    assert (method, path, body) == ("GET", "api/v1/session", None)
    assert authorization == f"token {TOKEN}"
    assert TOKEN not in json.dumps(found)


@pytest.mark.parametrize("fresh", [1000.0])
async def test_many_tabs_are_one_question(server, played, monkeypatch) -> None:
    gate = asyncio.Event()

    async def slowly(handler: RequestHandler) -> None:
        await gate.wait()
        handler.finish(SITUATION)

    played.answer = slowly
    asking = [asyncio.ensure_future(server.situation()) for _ in range(20)]
    await until(lambda: asyncio.sleep(0, len(played.asked)), lambda count: count > 0)
    gate.set()
    answers = await asyncio.gather(*asking)
    assert all(answer["situation"] for answer in answers)
    assert len(played.asked) == 1


@pytest.mark.parametrize("fresh", [0.0])
async def test_a_portal_that_hangs_holds_nothing_up(server, played, fresh, monkeypatch) -> None:
    await server.situation()
    gate = asyncio.Event()

    async def hang(handler: RequestHandler) -> None:
        await gate.wait()
        handler.finish(SITUATION)

    played.answer = hang
    monkeypatch.setattr(situation, "PATIENCE", 0.1)
    begun = awake()
    found = await server.situation()
    assert found["situation"]["job_id"] == "7" and found["age"] > 0
    assert awake() - begun < 3
    gate.set()


async def test_while_the_network_is_cut_the_last_word_stays_with_its_age(server, played) -> None:
    first = await server.situation()
    assert first["error"] == ""
    await played.stop()
    cut = await until(server.situation, lambda found: bool(found["error"]))
    assert cut["error"] == "The portal cannot be reached."
    assert cut["situation"] == first["situation"]
    assert set(cut["local"]) == {"gpus", "memory_used", "memory_limit"}
    later = await until(server.situation, lambda found: found["failing"] > cut["failing"])
    assert later["age"] > cut["age"] and later["at"] == pytest.approx(first["at"], abs=1)
    refused = await server.ask("extend", "POST", {"minutes": 30})
    assert refused.code == 503
    assert json.loads(refused.body) == {"message": "The portal cannot be reached."}
    played.start_again()
    back = await until(server.situation, lambda found: not found["error"])
    assert back["failing"] is None and back["age"] < later["age"]


def long(handler: RequestHandler) -> None:
    handler.finish({**SITUATION, "hint": "x" * 1_000_000})


def page(handler: RequestHandler) -> None:
    handler.finish("<html>Welcome to the hotel's network</html>")


def no_number(handler: RequestHandler) -> None:
    handler.finish('{"now": NaN}')


def deep(handler: RequestHandler) -> None:
    handler.finish("[" * 100_000)


def a_list(handler: RequestHandler) -> None:
    handler.finish("[1]")


def nothing_in_it(handler: RequestHandler) -> None:
    handler.finish("{}")


def elsewhere(handler: RequestHandler) -> None:
    handler.redirect(f"http://127.0.0.1:{handler.request.host.split(':')[1]}/services/portal/x")


def bad_bytes(handler: RequestHandler) -> None:
    handler.finish(b"\xff\xfe{}")


def forbidden(handler: RequestHandler) -> None:
    handler.set_status(403)
    handler.finish({"error": {"code": "not_allowed", "message": "100 % <b>no</b>"}})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (long, "The portal's answer is too long."),
        (page, "The portal's answer cannot be read."),
        (no_number, "The portal's answer cannot be read."),
        (deep, "The portal's answer cannot be read."),
        (a_list, "The portal's answer cannot be read."),
        (nothing_in_it, "The portal's answer cannot be read."),
        (bad_bytes, "The portal's answer cannot be read."),
        (elsewhere, "The portal answered with 302."),
        (forbidden, "100 % <b>no</b>"),
    ],
)
async def test_a_hostile_answer_is_a_sentence(server, played, answer, words) -> None:
    played.answer = answer
    found = await server.situation()
    assert found["situation"] is None and found["error"] == words
    assert found["local"]["gpus"] == []
    assert all(path == "api/v1/session" for _, path, _, _ in played.asked)


async def test_an_answer_that_never_ends_is_given_up(server, played, monkeypatch) -> None:
    monkeypatch.setattr(service, "TIMEOUT", 0.3)
    stopped = asyncio.Event()

    async def drip(handler: RequestHandler) -> None:
        with pytest.raises(Exception, match="closed"):
            while True:
                handler.write(" ")
                await handler.flush()
                await asyncio.sleep(0.02)
        stopped.set()

    played.answer = drip
    await until(server.situation, lambda one: one["error"] == "The portal's answer takes too long.")
    await asyncio.wait_for(stopped.wait(), 10)


async def test_without_a_service_there_are_still_the_nodes_own_numbers(monkeypatch) -> None:
    found = await Situations(None, {"SLURM_JOB_ID": "7"}).answer()
    assert found["situation"] is None
    assert found["error"] == "The portal's address is not set in this session."
    assert found["local"]["gpus"] == []


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"PORTAL_SERVICE_URL": "http://hub/services/portal/"},
        {"PORTAL_SERVICE_URL": "file:///etc/passwd", "JUPYTERHUB_API_TOKEN": "x"},
    ],
)
def test_no_address_no_service(environ) -> None:
    assert Address.from_environ(environ) is None


async def test_a_portal_that_does_not_answer_is_asked_less_and_less() -> None:
    clock, tries = SimpleNamespace(now=0.0), []

    async def fail() -> dict[str, Any]:
        tries.append(clock.now)
        raise ServiceError(
            "The portal cannot be reached.", retry_after=100.0 if len(tries) == 6 else 0
        )

    kept = CachedValue(fail, fresh=4.0, clock=lambda: clock.now)
    for _ in range(400):
        await kept.fetch_if_due(1)
        clock.now += 1
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps == [4, 8, 16, 32, 60, 100, 60, 60]
    assert kept.failing == 0.0


async def test_what_was_changed_is_asked_again_even_while_an_answer_is_on_its_way() -> None:
    gate, asked = asyncio.Event(), []

    async def find() -> dict[str, Any]:
        asked.append(1)
        await gate.wait()
        return {"number": len(asked)}

    kept = CachedValue(find, fresh=1000.0)
    await kept.fetch_if_due(0.01)
    kept.outdate()
    gate.set()
    await kept.fetch_if_due(1)
    await kept.fetch_if_due(1)
    assert kept.value == {"number": 2}
    await kept.fetch_if_due(1)
    assert len(asked) == 2


# -- What is passed on ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "asked"),
    [
        ("POST", "extend", {"minutes": 30}, "session/extend"),
        ("POST", "snooze", {}, "session/snooze"),
        ("POST", "stop", {}, "session/stop"),
        ("POST", "estimates", {"gpus": 2}, "session/estimates"),
        ("POST", "startup", {"paint": 1.5}, "session/startup"),
        ("GET", "move", None, "session/move"),
        ("POST", "move", {"gpus": 2}, "session/move"),
        ("DELETE", "move", None, "session/move"),
    ],
)
async def test_what_is_passed_on(server, played, method, path, body, asked) -> None:
    played.answer = lambda handler: handler.finish({"done": True})
    answer = await server.ask(path, method, body)
    assert (answer.code, json.loads(answer.body)) == (200, {"done": True})
    assert played.asked == [(method, f"api/v1/{asked}", body, f"token {TOKEN}")]


async def test_a_start_that_the_portal_cannot_take_yet_is_told_later(
    server, played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(local_api._LATER, "startup", (0.05, 0.05))
    played.answer = lambda handler: handler.send_error(503)
    answer = await server.ask("startup", "POST", {"steps": {"page": 1}})
    assert (answer.code, json.loads(answer.body)) == (202, {})
    played.answer = lambda handler: handler.finish({})
    for _ in range(100):
        if not local_api._report_tasks:
            break
        await asyncio.sleep(0.05)
    assert not local_api._report_tasks and len(played.asked) in (2, 3)
    # Nothing else is: a person waits for that answer.
    played.answer = lambda handler: handler.send_error(503)
    assert (await server.ask("extend", "POST", {"minutes": 1})).code == 503


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "extend", None, 405),
        ("DELETE", "snooze", None, 405),
        ("POST", "situation", {}, 405),
        ("POST", "telemetry", {}, 404),
        ("POST", "extend/../../jobs/1/stop", {}, 404),
        ("POST", "extend%2f..%2f..%2fjobs", {}, 404),
        ("POST", "", {}, 403),
        ("POST", "extend", [1], 400),
        ("POST", "extend", b"{", 400),
        ("POST", "extend", b"\xff", 400),
        ("POST", "extend", b'{"minutes": NaN}', 400),
        ("POST", "extend", b"[" * 10_000, 400),
        ("POST", "extend", {"minutes": "x" * 20_000}, 413),
    ],
)
async def test_nothing_else_is_passed_on(server, played, method, path, body, code) -> None:
    answer = await server.ask(path, method, body)
    assert answer.code == code, answer.body
    assert played.asked == []
    if code in (400, 405, 413):
        assert json.loads(answer.body)["message"].endswith(".")


AWAY = "The portal does not answer now. It may be restarting: try again in a minute."


@pytest.mark.parametrize(
    ("status", "body", "wanted", "words"),
    [
        (409, {"error": {"message": "It has 10 % left."}}, 409, "It has 10 % left."),
        (429, {"error": {"message": "Wait."}}, 429, "Wait."),
        (503, "<html>proxy</html>", 503, AWAY),
        (500, {"error": "text"}, 502, "The portal answered with 500."),
        (404, {"error": {"message": ["x"]}}, 502, "The portal answered with 404."),
        (200, "<html>", 502, "The portal's answer cannot be read."),
        (403, {"error": {"message": "No.", "field": ["x"]}}, 403, "No."),
    ],
)
async def test_a_refusal_keeps_its_sentence(server, played, status, body, wanted, words) -> None:
    def refuse(handler: RequestHandler) -> None:
        handler.set_status(status)
        handler.finish(body)

    played.answer = refuse
    answer = await server.ask("extend", "POST", {"minutes": 30})
    assert (answer.code, json.loads(answer.body)) == (wanted, {"message": words})


async def test_a_refusal_keeps_its_field(server, played) -> None:
    def refuse(handler: RequestHandler) -> None:
        handler.set_status(403)
        handler.finish({"error": {"message": "At most 4 GPUs.", "field": "gpus"}})

    played.answer = refuse
    answer = await server.ask("move", "POST", {"gpus": 5})
    assert json.loads(answer.body) == {"message": "At most 4 GPUs.", "field": "gpus"}


@pytest.mark.parametrize("fresh", [1000.0])
async def test_after_a_change_the_situation_is_new(server, played, fresh) -> None:
    await server.situation()
    await server.situation()
    await server.ask("extend", "POST", {"minutes": 30})
    await server.situation()
    asked = [path for _, path, _, _ in played.asked]
    assert asked == ["api/v1/session", "api/v1/session/extend", "api/v1/session"]


# -- Who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize("login", [None, "wrong", TOKEN])
@pytest.mark.parametrize(("method", "path"), [("GET", "situation"), ("POST", "extend")])
async def test_without_a_login_nothing_is_said(server, played, login, method, path) -> None:
    answer = await server.ask(path, method, {} if method == "POST" else None, login)
    assert answer.code == 403
    assert json.loads(answer.body)["message"].endswith(".")
    assert played.asked == []


async def test_a_cookie_alone_changes_nothing(server, played) -> None:
    """Another site's form in the same browser has the cookie, and not the XSRF token."""
    client = AsyncHTTPClient()
    seen = await client.fetch(f"{server.url.removesuffix('portal/')}api/me?token={LOGIN}")
    cookies = "; ".join(one.split(";")[0] for one in seen.headers.get_list("Set-Cookie"))
    assert cookies
    request = HTTPRequest(
        server.url + "extend", method="POST", body="{}", headers={"Cookie": cookies}
    )
    answer = await client.fetch(request, raise_error=False)
    assert answer.code == 403 and played.asked == []


async def test_looking_is_no_activity(server) -> None:
    settings = server.app.web_app.settings
    settings["api_last_activity"] = marker = object()
    await server.situation()
    await server.ask("move")
    assert settings["api_last_activity"] is marker
