"""portal-session, installed for real: a server that takes a port and tells the Hub which."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from certipy import Certipy
from machine import patience
from tornado.httpclient import AsyncHTTPClient, HTTPError, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
TOKEN = "a-token-that-nobody-may-see"
PREFIX = "/user/ada/"
PATIENCE = patience(60)  # seconds until a test gives up; a start takes 3


class Hub:
    """The two routes of the Hub that a session calls, recording what comes."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.posts: list[tuple[float, HTTPServerRequest]] = []
        self.accepted = asyncio.Event()

    def answer(self, request: HTTPServerRequest) -> int:
        self.posts.append((time.monotonic(), request))
        code = self.answers.pop(0) if self.answers else 201
        if 200 <= code < 300:
            self.accepted.set()
        return code


class PortRoute(RequestHandler):
    def post(self) -> None:
        self.set_status(self.application.settings["hub"].answer(self.request))
        self.finish("{}")


class Root(RequestHandler):
    def get(self) -> None:
        self.finish("{}")


@asynccontextmanager
async def a_hub(
    answers: list[int], tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Hub, str]]:
    """A Hub on loopback and the address of its API. ``answers``: status codes, then 201."""
    hub = Hub(answers)
    web = Application([("/hub/api/portal/port", PortRoute), ("/hub/api/?", Root)], hub=hub)
    server = HTTPServer(web, ssl_options=tls)
    listening, port = bind_unused_port()
    server.add_socket(listening)
    try:
        yield hub, f"http{'s' if tls else ''}://127.0.0.1:{port}/hub/api"
    finally:
        server.stop()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with portal-session and, from here, JupyterLab."""
    pytest.importorskip("jupyterlab")
    root = tmp_path_factory.mktemp("session") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True, timeout=120)
    packages = next(root.glob("lib/python3*/site-packages"))
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "zz_here.pth").write_text(here + "\n")
    python = root / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"]
    done = subprocess.run([*pip, KERNELS], capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"portal-session cannot be installed here: {done.stderr[-300:]}")
    # The extensions of JupyterLab are switched on by files that stand in its own environment.
    source = Path(sys.prefix) / "etc/jupyter/jupyter_server_config.d"
    for path in source.glob("*.json"):
        target = root / "etc/jupyter/jupyter_server_config.d" / path.name
        if not target.exists():
            target.write_text(path.read_text())
    return python


def session_environment(home: Path, api: str, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONUSERBASE": str(home / ".portal/test"),
        "JUPYTERHUB_API_URL": api,
        "JUPYTERHUB_API_TOKEN": TOKEN,
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:0{PREFIX}",
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        "JUPYTERHUB_USER": "ada",
        "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-ada",
        "JUPYTERHUB_HOST": "",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback",
        "JUPYTERHUB_OAUTH_SCOPES": '["access:servers"]',
        **more,
    }


@contextmanager
def a_session(python: Path, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen]:
    argv = [python, "-I", "-m", "portal_session"]
    if os.geteuid() == 0:
        argv.append("--allow-root")
    with log.open("w") as out:
        process = subprocess.Popen(
            argv, env=environment, stdout=out, stderr=out, cwd=environment["HOME"]
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def listening_ports(pid: int) -> set[int]:
    """The TCP ports on which process ``pid`` listens, from /proc."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:  # 0A is LISTEN
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


async def test_the_port_that_is_posted_is_the_one_that_listens(installed, tmp_path):
    async with a_hub([]) as (hub, api):
        log = tmp_path / "log"
        with a_session(installed, session_environment(tmp_path, api), log) as process:
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
            [(_, request)] = hub.posts
            body = json.loads(request.body)
            assert set(body) == {"port"}
            assert body["port"] in listening_ports(process.pid), log.read_text()
            assert request.headers["Authorization"] == f"token {TOKEN}"
            assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_text()
            reader, writer = await asyncio.open_connection("127.0.0.1", body["port"])
            writer.write(f"GET {PREFIX}api HTTP/1.0\r\n\r\n".encode())
            assert b"200" in (await asyncio.wait_for(reader.readline(), PATIENCE))
            writer.close()
            assert TOKEN not in log.read_text()


async def test_it_repeats_until_the_hub_accepts(installed, tmp_path):
    async with a_hub([503, 503, 201]) as (hub, api):
        log = tmp_path / "log"
        with a_session(installed, session_environment(tmp_path, api), log):
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
            ports = [json.loads(request.body)["port"] for _, request in hub.posts]
            assert len(ports) == 3 and len(set(ports)) == 1
            times = [when for when, _ in hub.posts]
            assert times[1] - times[0] >= 0.2 and times[2] - times[1] >= 0.4
            assert log.read_text().count("answered 503") == 1


async def test_a_hub_that_is_down_does_not_end_the_session(installed, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        api = f"http://127.0.0.1:{closed.getsockname()[1]}/hub/api"
        log = tmp_path / "log"
        with a_session(installed, session_environment(tmp_path, api), log) as process:
            deadline = time.monotonic() + PATIENCE
            while "could not be reached" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                await asyncio.sleep(0.2)
            assert listening_ports(process.pid)


async def test_internal_ssl_goes_both_ways(installed, tmp_path):
    """The Hub and the server of a session show certificates and want to see one."""
    maker = Certipy(store_dir=str(tmp_path / "tls"))
    authority = maker.create_ca("test-ca")
    ca = authority["files"]["cert"]
    names = ["IP:127.0.0.1", "DNS:localhost"]
    files = {}
    for name in ("hub", "session"):
        pair = maker.create_signed_pair(name, "test-ca", alt_names=names)
        files[name] = pair["files"]
    hub_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    hub_tls.verify_mode = ssl.CERT_REQUIRED
    hub_tls.load_cert_chain(files["hub"]["cert"], files["hub"]["key"])
    async with a_hub([], hub_tls) as (hub, api):
        log = tmp_path / "log"
        environment = session_environment(
            tmp_path,
            api,
            JUPYTERHUB_SERVICE_URL=f"https://127.0.0.1:0{PREFIX}",
            JUPYTERHUB_SSL_KEYFILE=files["session"]["key"],
            JUPYTERHUB_SSL_CERTFILE=files["session"]["cert"],
            JUPYTERHUB_SSL_CLIENT_CA=ca,
        )
        with a_session(installed, environment, log) as process:
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
            [(_, request)] = hub.posts
            port = json.loads(request.body)["port"]
            assert port in listening_ports(process.pid), log.read_text()
            url = f"https://127.0.0.1:{port}{PREFIX}api"
            client = ssl.create_default_context(cafile=ca)
            with pytest.raises((OSError, HTTPError)):
                await AsyncHTTPClient().fetch(url, ssl_options=client)
            client.load_cert_chain(files["hub"]["cert"], files["hub"]["key"])
            answer = await AsyncHTTPClient().fetch(url, ssl_options=client)
            assert answer.code == 200


async def test_a_browser_keeps_the_files_of_extensions(installed, tmp_path):
    """Or it would ask the session for each of them again whenever Lab is loaded. They are sent
    compressed, to anyone: a page asks for them before somebody has logged in, too."""
    name = "@data-scientist-portal/session"
    package = installed.parents[1] / f"share/jupyter/labextensions/{name}/package.json"
    entry = json.loads(package.read_text())["jupyterlab"]["_build"]["load"]
    async with a_hub([]) as (hub, api):
        log = tmp_path / "log"
        with a_session(installed, session_environment(tmp_path, api), log):
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
            port = json.loads(hub.posts[0][1].body)["port"]
            place = f"http://127.0.0.1:{port}{PREFIX}lab/extensions/{name}/{entry}"
            request = HTTPRequest(
                place,
                headers={"Accept-Encoding": "gzip"},
                decompress_response=False,
                follow_redirects=False,
            )
            answer = await AsyncHTTPClient().fetch(request)
            assert "immutable" in answer.headers["Cache-Control"], log.read_text()
            assert gzip.decompress(answer.body) == (package.parent / entry).read_bytes()


async def test_sigterm_ends_it(installed, tmp_path):
    async with a_hub([]) as (hub, api):
        log = tmp_path / "log"
        with a_session(installed, session_environment(tmp_path, api), log) as process:
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, PATIENCE) == 0, log.read_text()


async def test_what_a_person_installed_cannot_break_the_server(installed, tmp_path):
    version = "python{}.{}".format(*sys.version_info[:2])
    packages = tmp_path / f".portal/test/lib/{version}/site-packages"
    packages.mkdir(parents=True)
    for place in (packages, tmp_path):  # the working directory too
        for name in ("tornado", "jupyter_server", "random"):
            (place / f"{name}.py").write_text("raise SystemExit('broken on purpose')\n")
    # What `pip install --user` of a server extension leaves behind.
    config = tmp_path / ".portal/test/etc/jupyter/jupyter_server_config.d/broken.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"ServerApp": {"jpserver_extensions": {"tornado.broken": true}}}')
    environment = session_environment(tmp_path, "", PYTHONPATH=str(packages))
    async with a_hub([]) as (hub, api):
        environment["JUPYTERHUB_API_URL"] = api
        log = tmp_path / "log"
        with a_session(installed, environment, log):
            await asyncio.wait_for(hub.accepted.wait(), PATIENCE)
    assert "broken" not in log.read_text()


def test_the_wheel_has_the_files_that_every_python_reads_at_its_start(installed):
    packages = next(installed.parents[1].glob("lib/python3*/site-packages"))
    for name in ("portal_session.pth", "portal_session.start"):
        assert (packages / name).read_bytes() == (KERNELS / name).read_bytes()


def test_packages_of_the_person_reach_other_pythons_of_the_environment(installed, tmp_path):
    version = "python{}.{}".format(*sys.version_info[:2])
    base = tmp_path / "base"
    packages = base / f"lib/{version}/site-packages"
    packages.mkdir(parents=True)
    (packages / "tornado.py").write_text("version = 'mine'\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONUSERBASE": str(base)}

    def ask(*flags: str, env: dict[str, str]) -> str:
        code = "import tornado, site; print(tornado.version, site.ENABLE_USER_SITE)"
        return subprocess.run(
            [installed, *flags, "-c", code],
            env=env,
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        ).stdout.strip()

    assert ask(env=environment) == "mine True"
    assert not ask("-I", env=environment).startswith("mine")
    assert not ask("-s", env=environment).startswith("mine")
    assert not ask(env={**environment, "PYTHONNOUSERSITE": "1"}).startswith("mine")
    assert ask(env={"PATH": os.environ["PATH"]}).endswith("False")
