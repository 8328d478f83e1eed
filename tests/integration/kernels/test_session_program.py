"""A program that a session opens instead of JupyterLab: behind a real jupyter_server's login."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from session_server import BASE, TOKEN, SessionServer, a_server, make_python, wait_for

pytest.importorskip("jupyter_server_proxy")

# Says what it was asked, asks for its word, and answers a websocket with what that says.
_PROGRAM = """
import base64, os, sys
from tornado import ioloop, web, websocket

port, base, secret = sys.argv[1:]
word = base64.b64encode(("session:" + open(secret).read()).encode()).decode()

class Say(web.RequestHandler):
    def prepare(self):
        if self.request.headers.get("Authorization") != "Basic " + word:
            raise web.HTTPError(401)
    def get(self, path):
        self.set_cookie("mine", word)
        self.write({"path": self.request.path, "headers": dict(self.request.headers),
                    "environ": dict(os.environ), "cwd": os.getcwd()})
    def post(self, path):
        self.write(self.request.body)
    def delete(self, path):
        print("asked to end with", open(secret).read(), flush=True)
        os._exit(3)

class Echo(websocket.WebSocketHandler):
    prepare = Say.prepare
    def on_message(self, message):
        self.write_message(message[::-1])

web.Application([(base + "/echo", Echo), (base + "/(.*)", Say)]).listen(int(port), "127.0.0.1")
ioloop.IOLoop.current().start()
"""
PAGE = f"{BASE}portal/program/"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionServer]:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(_PROGRAM)
    argv = ["{python}", str(folder / "program.py"), "{port}", "{base}", "{secret}"]
    told = json.dumps({"title": "A <program>", "argv": argv})
    secret = {"PORTAL_PROGRAM": told, "JUPYTERHUB_API_TOKEN": "the-session's"}
    with a_server(make_python(folder / "venv"), **secret) as running:
        yield running


def answered(server: SessionServer, path: str = "") -> httpx.Response:
    return wait_for(
        lambda: found if (found := server.client.get(f"portal/program/{path}")).is_success
        and "is starting" not in found.text else None,
        lambda: server.log.read_text()[-2000:],
    )  # fmt: skip


def test_it_is_what_the_session_opens(server: SessionServer) -> None:
    first = server.client.get("")
    assert (first.status_code, first.headers["location"]) == (302, PAGE)
    found = answered(server, "a/b").json()
    assert found["path"] == f"{PAGE}a/b"
    assert found["cwd"] == str(server.home)
    assert "JUPYTERHUB_API_TOKEN" not in found["environ"]


def test_only_the_proxy_has_its_word(server: SessionServer) -> None:
    answer = answered(server)
    assert "set-cookie" not in answer.headers or "mine=" not in answer.headers["set-cookie"]
    asked = {name.lower(): value for name, value in answer.json()["headers"].items()}
    assert "cookie" not in asked and asked["authorization"].startswith("Basic ")
    (file,) = (server.home / "t").glob("portal-tb-*/secret")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    ps = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert "program.py" in ps and file.read_text() not in ps


def test_nobody_comes_past_the_login(server: SessionServer) -> None:
    answered(server)
    stranger = httpx.get(f"{server.url}{PAGE}")
    assert stranger.status_code in (302, 403)
    assert "environ" not in stranger.text


def test_what_is_sent_arrives_but_not_from_other_sites(server: SessionServer) -> None:
    answered(server)
    sent = server.client.post("portal/program/x", content=b"\x00abc")
    assert sent.content == b"\x00abc"
    # A browser has the session's cookie instead of a token, and says which page asks.
    with httpx.Client(base_url=server.url) as browser:
        assert browser.get(f"{BASE}api/status", params={"token": TOKEN}).is_success
        for origin, status in ((server.url, 200), ("https://evil.example", 403)):
            asks = {"Origin": origin}
            assert browser.post(f"{PAGE}x", content=b"1", headers=asks).status_code == status


async def test_websockets_come_through(server: SessionServer) -> None:
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    answered(server)
    url = f"ws{server.url.removeprefix('http')}{PAGE}echo"
    headers = {"Authorization": server.client.headers["Authorization"]}
    for _ in range(10):  # what is sent at once is not lost
        connection = await websocket_connect(HTTPRequest(url, headers=headers))
        await connection.write_message("abc")
        assert await asyncio.wait_for(connection.read_message(), 30) == "cba"
        connection.close()


def test_an_end_is_told_and_it_starts_again(server: SessionServer) -> None:
    answered(server)
    (file,) = (server.home / "t").glob("portal-tb-*/secret")
    server.client.delete("portal/program/x")
    ended = wait_for(
        lambda: found if (found := server.client.get("portal/program/")).status_code == 503
        and "has ended" in found.text else None
    )  # fmt: skip
    assert "A &lt;program&gt; has ended" in ended.text and "asked to end with ***" in ended.text
    assert file.read_text() not in ended.text
    assert server.client.get("portal/program/?again").status_code == 302
    answered(server)


def test_another_users_program_on_its_port_is_not_asked(tmp_path: Path) -> None:
    from portal_session.programs.program import Program

    program = Program(
        {"argv": [sys.executable, "-c", "import time; time.sleep(60)"]},
        tmp_path, PAGE, str(tmp_path), os.environ,
    )  # fmt: skip
    program.start()
    try:
        assert program.runs and not program.answers
    finally:
        program.stop()
    assert not program.runs
