"""Who enters a course's session: a real server of a session, with a Hub and a service on loopback
that say what a test tells them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from machine_clock import awake
from portal_session.course import guests as guests_module
from portal_session.course.guests import FRESH, LONGEST, Guests
from quiet_http import QuietHandler
from session_server import make_python, wait_for
from terminal import type_in, until_closed
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

OWN = "the-sessions-own-token"
PREFIX = "/user/ada/course-dl/"
ACCESS = "access:servers!server=ada/course-dl"
PROMISED = 10.0  # seconds in which a socket is closed


class Around:
    """The Hub and the service: who has which token, and who may be in for how many seconds."""

    def __init__(self) -> None:
        self.tokens = {
            OWN: "ada",
            **{f"token-of-{one}": one for one in ("ada", "barbara", "grace")},
        }
        self.guests: dict[str, float] = {}
        self.away = False  # the service
        self.port = 0
        self.asked: list[tuple[str, str, Any]] = []
        around = self

        class Answer(QuietHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = self.headers.get("Authorization", "").removeprefix("token ")
                status, answer = around.answer(self.command, self.path, token, body)
                self.send_whole(status, json.dumps(answer).encode())

            do_POST = do_PUT = do_DELETE = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Any]:
        sent = json.loads(body) if body else None
        if path == "/hub/api/user":
            name = self.tokens.get(token)
            if name is None:
                return 403, {}
            return 200, {"name": name, "kind": "user", "scopes": [ACCESS], "groups": []}
        if path == "/hub/api/portal/port":
            self.port = sent["port"]
            return 201, {}
        if not path.startswith("/services/"):
            return 200, {}
        if self.away or token != OWN:
            return 503, {}
        path = path.removeprefix("/services/portal/api/v1/")
        self.asked.append((method, path, sent))
        if path == "session/guests":
            rows = [{"person": who, "seconds": left} for who, left in self.guests.items()]
            return 200, {"guests": rows}
        if path == "session":
            return 200, {"now": time.time()}
        return 200, {}

    def answers(self, method: str, path: str) -> list[Any]:
        return [body for one, where, body in self.asked if (one, where) == (method, path)]


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Around]:
    with session_of(tmp_path_factory, PORTAL_COURSE="dl", PORTAL_COURSE_KIND="course") as around:
        yield around


@contextlib.contextmanager
def session_of(tmp_path_factory: pytest.TempPathFactory, **variables: str) -> Iterator[Around]:
    """Yield what is around a session with these variables of its space."""
    pytest.importorskip("jupyterlab")
    around, home = Around(), tmp_path_factory.mktemp("home")
    python = make_python(tmp_path_factory.mktemp("python") / "venv")
    switch = "etc/jupyter/jupyter_server_config.d/jupyter_server_terminals.json"
    (python.parents[1] / switch).write_text((Path(sys.prefix) / switch).read_text())
    environment = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONUSERBASE": str(home / "base"),
        "SLURM_JOB_ID": "7",
        "JUPYTERHUB_API_URL": f"{around.url}/hub/api",
        "JUPYTERHUB_API_TOKEN": OWN,
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:0{PREFIX}",
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        "JUPYTERHUB_USER": "ada",
        "JUPYTERHUB_SERVER_NAME": "course-dl",
        "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-ada-course-dl",
        "JUPYTERHUB_HOST": "",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps([ACCESS]),
        "PORTAL_SERVICE_URL": f"{around.url}/services/portal/",
        **variables,
    }
    argv = [python, "-I", "-m", "portal_session"]
    if os.geteuid() == 0:
        argv.append("--allow-root")
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=environment, cwd=home, stdout=out, stderr=out)

    def up() -> bool:
        assert process.poll() is None, log.read_text()
        return bool(around.port)

    try:
        wait_for(up, log.read_text)
        yield around
    finally:
        process.kill()
        process.wait()
        around.server.shutdown()


@pytest.fixture(autouse=True)
def nobody_is_in(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "around" in request.fixturenames:
        found = request.getfixturevalue("around")
        found.guests, found.away = {}, False


def ask(around: Around, who: str, path: str = "api/terminals", method: str = "GET") -> int:
    token = OWN if who == OWN else f"token-of-{who}"
    headers = {"Authorization": f"token {token}"}
    url = f"http://127.0.0.1:{around.port}{PREFIX}{path}"
    return httpx.request(method, url, headers=headers, timeout=30).status_code


def a_terminal(around: Around) -> str:
    url = f"http://127.0.0.1:{around.port}{PREFIX}api/terminals"
    made = httpx.post(url, headers={"Authorization": "token token-of-ada"}, timeout=30)
    return str(made.json()["name"])


async def open_socket(around: Around, who: str, path: str) -> WebSocketClientConnection:
    url = f"ws://127.0.0.1:{around.port}{PREFIX}{path}"
    headers = {"Authorization": f"token token-of-{who}"}
    return await websocket_connect(HTTPRequest(url, headers=headers))


def guests_asked(around: Around) -> int:
    return sum(path.endswith("session/guests") for _, path, _ in around.asked)


async def test_only_its_owner_enters(around: Around) -> None:
    assert ask(around, "ada") == 200
    for other in ("barbara", "grace"):  # the Hub would let both in: grace is an admin
        for path in ("api/terminals", "lab", "api/contents", "portal/situation", "api/status"):
            assert ask(around, other, path) == 403, (other, path)
    assert ask(around, "nobody") in (302, 403)


async def test_the_sessions_own_token_is_no_login(around: Around) -> None:
    """Code in the session can read it: a helper could take it away."""
    assert ask(around, OWN) == 403
    around.guests = {"ada": 600.0, "barbara": 600.0}
    assert ask(around, OWN) == 403


async def test_an_open_terminal_ends_with_the_help(around: Around) -> None:
    name = a_terminal(around)
    path = f"terminals/websocket/{name}"
    with pytest.raises(HTTPClientError, match="403"):
        await open_socket(around, "barbara", path)
    around.guests = {"barbara": 600.0}
    own = await open_socket(around, "ada", path)
    helper = await open_socket(around, "barbara", path)
    events = await open_socket(around, "barbara", "api/events/subscribe")
    assert ask(around, "barbara") == 200
    assert ask(around, "grace") == 403
    await type_in(helper, "echo $((6 * 7))", "42")

    around.guests = {}
    with pytest.raises(HTTPClientError, match="403"):  # at once: a socket is asked about anew
        await open_socket(around, "barbara", path)
    await asyncio.sleep(FRESH + 0.1)
    questions = guests_asked(around)
    answer = ask(around, "barbara")
    assert guests_asked(around) > questions  # an answer is believed for half a second, no longer
    began = awake()
    while answer != 403:  # one that came late is not taken for the newest
        answer = ask(around, "barbara")
        assert awake() - began < FRESH + 2.0
        await asyncio.sleep(0.1)
    assert max(await asyncio.gather(until_closed(helper), until_closed(events))) < PROMISED
    with pytest.raises(HTTPClientError, match="403"):
        await open_socket(around, "barbara", path)
    await type_in(own, "echo $((6 * 8))", "48")
    own.close()


async def test_the_time_is_over_though_nobody_says_so(around: Around) -> None:
    path = f"terminals/websocket/{a_terminal(around)}"
    around.guests = {"barbara": 3.0}
    helper = await open_socket(around, "barbara", path)
    around.away = True
    assert await until_closed(helper) < LONGEST - 1.0  # that long an answer counts
    assert ask(around, "barbara") == 403


async def test_without_an_answer_nobody_stays(around: Around) -> None:
    path = f"terminals/websocket/{a_terminal(around)}"
    around.guests = {"barbara": 600.0}
    own, helper = await open_socket(around, "ada", path), await open_socket(around, "barbara", path)
    around.away = True
    assert await until_closed(helper) < LONGEST + 2.0
    assert ask(around, "barbara") == 403
    assert ask(around, "ada") == 200
    await type_in(own, "echo $((6 * 9))", "54")
    own.close()
    around.away = False
    wait_for(lambda: ask(around, "barbara") == 200)


async def test_a_helper_does_nothing_in_the_owners_name(around: Around) -> None:
    around.guests = {"barbara": 600.0}
    for path in ("portal/hand", "portal/help", "portal/extend", "portal/move"):
        assert ask(around, "barbara", path, "POST") == 403, path
    assert not around.answers("PUT", "session/hand")


async def test_whose_session_it_is_is_told_to_a_guest(around: Around) -> None:
    around.guests = {"barbara": 600.0}
    url = f"http://127.0.0.1:{around.port}{PREFIX}portal/situation"
    for who, guest in (("barbara", "barbara"), ("ada", "")):
        said = httpx.get(url, headers={"Authorization": f"token token-of-{who}"}, timeout=30)
        assert said.json()["guest"] == guest


# -- without a server ------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_what_is_known_grows_old() -> None:
    clock, answers = Clock(), [{"guests": [{"person": "barbara", "seconds": 100.0}]}]

    def answer() -> Any:
        if not answers:
            raise OSError
        return answers[0]

    guests = Guests("ada", answer, clock)
    assert not guests.live("barbara")
    assert await guests.may_enter("barbara")
    assert not await guests.may_enter("grace")
    answers.clear()
    clock.now += LONGEST - 0.1
    assert await guests.may_enter("barbara"), "the service may be away for a moment"
    clock.now += 0.2
    assert not await guests.may_enter("barbara")


@pytest.mark.parametrize(
    "said",
    [{}, {"guests": None}, {"guests": [{"person": "barbara"}]}, {"guests": [{"seconds": 1}]}, []],
)
async def test_an_answer_that_cannot_be_read_lets_nobody_in(said: Any) -> None:
    guests = Guests("ada", lambda: said, Clock())
    assert not await guests.may_enter("barbara")


async def test_an_older_answer_does_not_replace_a_newer_one() -> None:
    slow, clock = threading.Event(), Clock()

    def answer() -> Any:
        if clock.now == 1000.0:
            slow.wait(30)
            return {"guests": [{"person": "barbara", "seconds": 100.0}]}
        return {"guests": []}

    guests = Guests("ada", answer, clock)
    guests.outdate()
    first = guests._renewal
    assert first is not None
    await asyncio.sleep(0)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(first), 0.05)
    clock.now += 1
    guests.outdate()
    assert guests._renewal is not None
    await guests._renewal
    slow.set()
    await first
    assert not guests.live("barbara")


def test_outside_of_courses_nothing_is_changed() -> None:
    from jupyterhub.singleuser.extension import JupyterHubIdentityProvider

    before = JupyterHubIdentityProvider.get_user
    assert guests_module.guard({"JUPYTERHUB_USER": "ada"}) is None
    assert JupyterHubIdentityProvider.get_user is before
