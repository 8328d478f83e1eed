"""Gateway and replicas as processes, with real TLS, and a Hub and a service that are played.

The Hub knows the tokens in ``tokens``; the service takes what replicas report, and `write_routes`
writes them for the gateway, as the portal's does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from checkout import ROOT
from machine import patience
from runs import ends_with_parent

PROGRAM = ROOT / "tests/support/servers/endpoint_program.py"
USE = "custom:portal:models:use"
NAME = "echo"


class GatewaySite:
    """One gateway, and replicas of one model. ``folder``: short, for Unix sockets; ``shorter``:
    times of the gateway's modules that are too long for a test (module.NAME=seconds)."""

    def __init__(self, folder: Path, *shorter: str) -> None:
        self.folder, self._shorter = folder, shorter
        self.directory = folder / "gateway"
        self.tokens: dict[str, dict[str, Any]] = {}
        self.hub_delay = 0.0
        self.hub_status = 0  # answered instead, if it is set
        self.hub_asked = 0
        self.reports: dict[str, dict[str, Any]] = {}
        self.replicas: dict[str, subprocess.Popen[bytes]] = {}
        self.models: dict[str, dict[str, Any]] = {}
        self.gateways: list[subprocess.Popen[bytes]] = []
        self._runner: web.AppRunner | None = None
        self.port = _free_port()
        self.hub_port = 0
        self.token = self.add_user("ada")

    def add_user(self, name: str, *, groups: tuple[str, ...] = (), scopes: Any = (USE,)) -> str:
        """Return a new token of a user."""
        token = f"token-of-{name}-{len(self.tokens)}"
        self.tokens[token] = {"name": name, "groups": list(groups), "scopes": list(scopes)}
        return token

    async def start(self) -> None:
        """Start the Hub, the service and the gateway; no replica."""
        app = web.Application()
        app.router.add_get("/hub/api/user", self._user)
        app.router.add_put("/api/v1/session/endpoint", self._reported)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.hub_port = self._runner.addresses[0][1]
        await self.start_gateway()

    async def start_gateway(
        self, listening: socket.socket | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a gateway, beside those that run, and return when it listens. ``listening``: the
        socket on its standard input, as of systemd's."""
        modules = sorted({word.split(".")[0] for word in self._shorter} - {""})
        lines = [
            "import sys, portal.__main__",
            *(f"import portal.gateway.{module} as {module}" for module in modules),
            *self._shorter,
            "portal.__main__.main()",
        ]
        log = (self.folder / f"gateway{len(self.gateways)}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-c", "\n".join(lines), "gateway", f"127.0.0.1:{self.port}"],
            cwd=ROOT,
            env={
                **os.environ,
                "STATE_DIRECTORY": str(self.directory),
                "JUPYTERHUB_API_URL": f"http://127.0.0.1:{self.hub_port}/hub/api",
            },
            stdin=subprocess.DEVNULL if listening is None else listening,
            stdout=log,
            stderr=log,
            preexec_fn=ends_with_parent,
        )
        self.gateways.append(process)
        path = Path(log.name)
        await until(lambda: "listens on" in path.read_text(), path.read_text)
        return process

    async def stop(self) -> None:
        """End everything."""
        for process in [*self.gateways, *self.replicas.values()]:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self._runner is not None:
            await self._runner.cleanup()

    async def add_replica(
        self,
        id: str,
        *shorter: str,
        ready: bool = True,
        program: str = "",
        drain: float = 20,
        **more: str,
    ) -> subprocess.Popen[bytes]:
        """Start a replica's job, and wait until it is ``ready``. ``shorter``: times of its module
        (NAME=seconds)."""
        command = [sys.executable, program or str(PROGRAM), "{socket}"]
        endpoint = {"id": id, "argv": command, "health": "/health", "load": 30, "drain": drain}
        environ = {
            **os.environ,
            "PORTAL_ENDPOINT": json.dumps(endpoint),
            "PORTAL_ENDPOINT_GATEWAY": (self.directory / "gateway.pem").read_text(),
            "PORTAL_SERVICE_URL": f"http://127.0.0.1:{self.hub_port}",
            "JUPYTERHUB_API_TOKEN": id,
            "TMPDIR": str(self.folder),
            **more,
        }
        lines = [
            "from portal_session.serving import replica, starter",
            *(f"replica.{each}" for each in shorter),
            "starter.main()",
        ]
        with (self.folder / f"{id}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", "\n".join(lines)],
                cwd=ROOT / "kernels",
                env=environ,
                stdout=log,
                stderr=log,
                preexec_fn=ends_with_parent,
            )
        self.replicas[id] = process
        if ready:
            await until(lambda: self.reports.get(id, {}).get("ready"), lambda: self.log(id))
        return process

    def log(self, id: str) -> str:
        return (self.folder / f"{id}.log").read_text()

    def row(self, id: str, **more: Any) -> dict[str, Any]:
        """Return a replica as routes.json has it."""
        report = self.reports[id]
        address = f"127.0.0.1:{report['port']}"
        return {"id": id, "address": address, "certificate": report["certificate"], **more}

    async def serve(self, *ids: str, name: str = NAME, **model: Any) -> None:
        """Route a model to these replicas, and wait until the gateway has seen it."""
        rows = [self.row(id) for id in ids]
        self.models[name] = {"owner": "ada", "replicas": rows, **model}
        await self.write_routes()

    async def write_routes(self) -> None:
        """Write routes.json, at once, and wait until the gateway has read it."""
        new = self.directory / "new.json"
        new.write_text(json.dumps({"version": 1, "models": self.models}))
        new.chmod(0o600)
        new.replace(self.directory / "routes.json")
        await self.routes_taken()

    async def routes_taken(self) -> None:
        """Wait until the gateway uses what is in routes.json."""
        written = (self.directory / "routes.json").stat().st_mtime
        async with asyncio.timeout(patience(30)):
            while (await self.ask_state())["routes_written_at"] != written:
                await asyncio.sleep(0.05)

    def url(self, path: str = "/", name: str = NAME) -> str:
        return f"http://127.0.0.1:{self.port}/services/portal/models/{name}{path}"

    def headers(self, token: str = "") -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.token}"}

    async def ask_state(self, path: str = "/state") -> Any:
        """Return what the gateway tells on its socket."""
        connector = aiohttp.UnixConnector(path=str(self.directory / "gateway.sock"))
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(f"http://gateway{path}") as response:
                if path == "/metrics":
                    return await response.text()
                return await response.json()

    async def _user(self, request: web.Request) -> web.Response:
        self.hub_asked += 1
        await asyncio.sleep(self.hub_delay)
        if self.hub_status:
            return web.Response(status=self.hub_status)
        user = self.tokens.get(request.headers["Authorization"].removeprefix("token "))
        return web.json_response({"kind": "user", **user}) if user else web.Response(status=403)

    async def _reported(self, request: web.Request) -> web.Response:
        id = request.headers["Authorization"].removeprefix("token ")
        self.reports[id] = await request.json()
        return web.json_response({})


async def until(true: Callable[[], Any], words: Callable[[], str] = str) -> None:
    """Wait for a condition."""
    deadline = asyncio.get_running_loop().time() + patience(30)
    while not true():
        assert asyncio.get_running_loop().time() < deadline, words()
        await asyncio.sleep(0.05)


def raw_request(port: int, data: bytes, seconds: float = 10.0) -> bytes:
    """Send bytes and return all that comes back until the other side closes. Blocks."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        with contextlib.suppress(OSError):
            while part := connection.recv(65536):
                received += part
    return received


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def paused(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a process for a while, as a node that hangs."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
