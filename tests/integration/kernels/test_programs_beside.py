"""A program beside JupyterLab, as data: on a Unix socket, behind a real jupyter_server's login."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from listening import as_neighbour, as_owner, listening_sockets, reached
from session_server import BASE, SessionServer, a_server, make_python, wait_for
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

pytest.importorskip("jupyter_server_proxy")

# Serves at "/" whatever the browser's path is, and leads to itself.
_PROGRAM = """
import os, socket, sys
NAMES = ("JUPYTERHUB_API_TOKEN", "HOME", "SLURM_JOB_ID", "PORTAL_JOB_ID")
from tornado import httpserver, ioloop, web, websocket

class Say(web.RequestHandler):
    def get(self, path):
        if path == "away":
            self.redirect("/there?x=1")
        elif path == "cut":
            self.write("x"); self.flush(); self.request.connection.stream.close()
        elif path == "end":
            os._exit(3)
        else:
            environ = {name: os.environ.get(name) for name in NAMES}
            self.write({"uri": self.request.uri, "headers": dict(self.request.headers),
                        "environ": environ, "pid": os.getpid()})

class Echo(websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message(message[::-1])

server = httpserver.HTTPServer(web.Application([("/echo", Echo), ("/(.*)", Say)]))
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listening.listen()
listening.setblocking(False)
server.add_socket(listening)
ioloop.IOLoop.current().start()
"""
PAGE = f"{BASE}portal/programs/small/"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionServer]:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(_PROGRAM)
    argv = ["{python}", str(folder / "program.py"), "{socket}"]
    port = ["{python}", "-m", "http.server", "--bind", "127.0.0.1", "{port}", "{secret}"]
    defined = {"small": {"title": "Small", "argv": argv}, "other": {"title": "O", "argv": port}}
    told = {"PORTAL_OPENS": json.dumps(defined), "JUPYTERHUB_API_TOKEN": "the-session's"}
    told["SLURM_JOB_ID"] = "7"
    with a_server(make_python(folder / "venv"), **told) as running:
        running.home.joinpath("t").chmod(0o1777)  # as the folder for temporary files is
        yield running


def answered(server: SessionServer, path: str = "") -> httpx.Response:
    return wait_for(
        lambda: found if (found := server.client.get(server.url + PAGE + path)).is_success
        and found.headers["content-type"].startswith("application/json") else None,
        lambda: server.log.read_text()[-2000:],
    )  # fmt: skip


def directories(server: SessionServer) -> list[Path]:
    return [path.parent for path in (server.home / "t").glob("portal-tb-*/*/secret")]


def test_it_starts_once_somebody_opens_it_and_beside_the_server(server: SessionServer) -> None:
    assert directories(server) == []
    assert server.client.get("api/status").json()["kernels"] == 0
    first = answered(server, "a/b?c=%20d").json()
    assert first["uri"] == "/a/b?c=%20d"
    assert first["headers"]["X-Forwarded-Prefix"] == PAGE.rstrip("/")
    # As in a terminal: neither the session's secrets, nor what makes sbatch start a step of it.
    of_session = {"JUPYTERHUB_API_TOKEN": None, "SLURM_JOB_ID": None}
    assert first["environ"] == {**of_session, "PORTAL_JOB_ID": "7", "HOME": str(server.home)}
    assert answered(server).json()["pid"] == first["pid"]
    assert len(directories(server)) == 1, "the other one is not started"
    without = server.client.get(server.url + PAGE.rstrip("/") + "?x=1")
    assert (without.status_code, without.headers["location"]) == (302, f"{PAGE}?x=1")
    none = server.client.get("portal/programs/none/", follow_redirects=True)
    assert none.status_code == 404


def test_its_socket_is_private_and_it_gets_no_secret(server: SessionServer) -> None:
    headers = {name.lower() for name in answered(server).json()["headers"]}
    assert not headers & {"authorization", "cookie", "x-xsrftoken"}
    (directory,) = directories(server)
    assert stat.S_ISSOCK((directory / "socket").stat().st_mode)
    for private in (directory, directory.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    secret = (directory / "secret").read_text()
    shown = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True)
    assert "program.py" in shown.stdout and secret not in shown.stdout


def test_a_neighbour_on_the_node_cannot_reach_it(server: SessionServer) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    answered(server)
    (directory,) = directories(server)
    sockets = listening_sockets(as_owner, str(server.home))
    assert ("unix", str(directory / "socket")) in sockets
    assert len([at for kind, at in sockets if kind == "tcp"]) == 1, "the session's own port"
    assert reached(as_neighbour, sockets, PAGE) == {}


def test_nobody_starts_or_sees_it_without_the_login(server: SessionServer) -> None:
    answered(server)
    before = len(directories(server))
    for name in ("small", "other"):
        stranger = httpx.get(f"{server.url}{BASE}portal/programs/{name}/")
        assert stranger.status_code in (302, 403) and "environ" not in stranger.text
    assert len(directories(server)) == before


def test_it_leads_to_itself_and_cannot_be_framed(server: SessionServer) -> None:
    answered(server)
    away = server.client.get(f"{server.url}{PAGE}away")
    assert (away.status_code, away.headers["location"]) == (302, f"{PAGE}there?x=1")
    assert "frame-ancestors 'self'" in away.headers["content-security-policy"]
    assert away.headers["x-frame-options"] == "SAMEORIGIN"


def test_a_truncated_answer_does_not_look_complete(server: SessionServer) -> None:
    answered(server)
    with pytest.raises(httpx.RemoteProtocolError):
        server.client.get(f"{server.url}{PAGE}cut")


async def test_websockets_come_through(server: SessionServer) -> None:
    answered(server)
    url = f"ws{server.url.removeprefix('http')}{PAGE}echo"
    headers = {"Authorization": server.client.headers["Authorization"]}
    connection = await websocket_connect(HTTPRequest(url, headers=headers))
    await connection.write_message("abc")
    assert await asyncio.wait_for(connection.read_message(), 30) == "cba"
    connection.close()


def test_it_starts_again_after_its_end(server: SessionServer) -> None:
    before = answered(server).json()["pid"]
    server.client.get(f"{server.url}{PAGE}end")
    ended = wait_for(
        lambda: found if (found := server.client.get(server.url + PAGE)).status_code == 503
        and "has ended" in found.text else None
    )  # fmt: skip
    assert "Small has ended. Its last output:" in ended.text
    again = server.client.get(f"{server.url}{PAGE}?again")
    assert (again.status_code, again.headers["location"]) == (302, PAGE)
    assert answered(server).json()["pid"] != before


def test_it_ends_with_the_session(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    argv = ["{python}", str(tmp_path / "program.py"), "{socket}"]
    told = json.dumps({"small": {"title": "Small", "argv": argv}})
    with a_server(make_python(tmp_path / "venv"), PORTAL_OPENS=told) as running:
        pid = answered(running).json()["pid"]
        (directory,) = directories(running)
        assert Path(f"/proc/{pid}").exists()
        running.process.terminate()
        running.process.wait(30)
        wait_for(lambda: not Path(f"/proc/{pid}").exists())
        assert not directory.parent.exists()
