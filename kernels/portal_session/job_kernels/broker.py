"""Broker of a session: its server asks the portal on behalf of relays, ``portal-run`` and the like.

The session's token never leaves the server. They are processes of kernels, notebooks and
terminals, without it, and reach the broker over a Unix socket in a folder of mode 700.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import socket
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application

from ..chosen_id import is_id
from ..runs.routes import routes as routes_of_runs
from ..service import Service, ServiceError
from ..serving.portal_serve.routes import routes as routes_of_models
from ..situation import in_thread
from ..storage.routes import routes as routes_of_storages
from .broker_client import VARIABLE
from .broker_handler import BrokerHandler
from .submitter import PATH, Submitter

LOOKS, SHORT = 16, 0.5  # questions for the node's address, and seconds between them
LARGEST = 16 * 1024  # bytes of a body
AT_A_TIME = 4  # states of kernels that are asked for at once
FRESH = 5.0  # seconds for which a state serves all pages
PATIENCE = 3.0  # seconds that a page waits for new states; then it gets those of before
_UNKNOWN = 404  # the portal has no such kernel
PREFIX = "portal-kernels-"  # of the folder with the socket


class Kernels:
    """Job kernels of this session, as the portal told of them. ``clock`` returns monotonic
    seconds."""

    def __init__(
        self, service: Service | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service, self._clock = service, clock
        self.answers: dict[str, dict[str, Any]] = {}  # the newest answer of the portal, by kernel
        self._asked: dict[str, float] = {}  # when that was asked for
        self.submitter = Submitter(self, clock)
        self._refreshing: asyncio.Task[None] | None = None
        self._address = ""

    async def offered(self) -> dict[str, Any]:
        """Return what the portal offers, and this node's address. Raises ServiceError."""
        return await self.ask("GET", PATH)

    async def address(self) -> str:
        """Return this node's address, as other nodes reach it; "" if the portal does not say it in
        time. It knows the node of a new session after some seconds."""
        for _ in range(LOOKS):
            with contextlib.suppress(ServiceError):
                self._address = self._address or str((await self.offered()).get("address") or "")
            if self._address:
                break
            await asyncio.sleep(SHORT)
        return self._address

    async def whereabouts(self) -> dict[str, str]:
        """Return on what a relay or scheduler should ``listen``, and at which ``address`` the nodes
        reach that."""
        host = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", "")).hostname or ""
        listen = "" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
        # At most sites a node's name is an address, too.
        name = os.environ.get("SLURMD_NODENAME", "")
        address = await self.address() or listen or name or "127.0.0.1"
        return {"listen": listen, "address": address}

    async def estimate(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return when a kernel with these options would start. Raises ServiceError."""
        return await self.ask("POST", f"{PATH}/estimates", body)

    async def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """Submit the job of a kernel (`Submitter.submit`). Raises ServiceError."""
        return await self.submitter.submit(body)

    async def status(self, id: str) -> dict[str, Any]:
        """Return the status of a kernel's job. Raises ServiceError."""
        if id in self.answers and self.submitter.submits(id):
            return self.answers[id]
        self._asked[id] = self._clock()
        self.answers[id] = answer = await self.ask("GET", f"{PATH}/{id}")
        return answer

    async def stop(self, id: str) -> dict[str, Any]:
        """End the job of a kernel, if it has one. Raises ServiceError."""
        await self.submitter.end(id)
        self.answers.pop(id, None)
        self._asked.pop(id, None)
        try:
            return await self.ask("DELETE", f"{PATH}/{id}")
        except ServiceError as error:
            if error.status != _UNKNOWN:
                raise
            return {}  # refused, for one: there is no job to end

    async def refresh(self) -> None:
        """Ask for the states that are older than ``FRESH`` seconds, and wait ``PATIENCE`` seconds
        for them. A relay asks only until its kernel runs."""
        if self._refreshing is None and (ids := self._outdated()):
            self._refreshing = asyncio.ensure_future(self._refresh(ids))
        if self._refreshing is not None:
            await asyncio.wait({self._refreshing}, timeout=PATIENCE)

    def _outdated(self) -> list[str]:
        """List the kernels to ask for, those first that were asked for the longest time ago."""
        asked = {
            id: self._asked.get(id, -math.inf)
            for id, state in self.answers.items()
            if state.get("state") != "ended"
        }
        due = [id for id, at in asked.items() if self._clock() - at >= FRESH]
        return sorted(due, key=lambda id: asked[id])[:AT_A_TIME]

    async def _refresh(self, ids: list[str]) -> None:
        try:
            await asyncio.gather(*(self._look(id) for id in ids))
        finally:
            self._refreshing = None

    async def _look(self, id: str) -> None:
        """Ask for a state. One that cannot be had leaves the last one."""
        self._asked[id] = self._clock()
        try:
            answer = await self.ask("GET", f"{PATH}/{id}")
        except ServiceError as error:
            if error.status != _UNKNOWN:
                return
            answer = _state(id, "ended", "The kernel's job has ended.")
        if id in self.answers:  # else it was stopped meanwhile
            self.answers[id] = answer

    def note(self, id: Any, state: str, message: str) -> None:
        """Note a state that the portal was not asked for."""
        if is_id(id):
            self._asked[id] = self._clock()
            self.answers[id] = _state(id, state, message)

    async def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request to the service, and return its answer. Raises ServiceError."""
        if self._service is None:
            raise ServiceError("The portal's address is not set in this session.", 503)
        return await in_thread(self._service.ask, method, path, body)


def _state(id: str, state: str, message: str) -> dict[str, Any]:
    """Return a state as the portal has it (portal/work/kernel/states.py)."""
    unknown: dict[str, Any] = dict.fromkeys(("ends_at", "position", "expected_start"))
    return {"id": id, "state": state, "message": message, "node": "", **unknown}


class _Handler(BrokerHandler):
    """Handler of a relay's request."""

    def initialize(self, kernels: Kernels) -> None:
        self.kernels = kernels


class AboutHandler(_Handler):
    """``GET /about``: where a relay should listen, and how the nodes reach that."""

    async def get(self) -> None:
        self.finish(json.dumps(await self.kernels.whereabouts()))


class KernelsHandler(_Handler):
    """``POST /kernels``: submit a kernel's job."""

    async def post(self) -> None:
        await self.answer_body(self.kernels.start)


class KernelHandler(_Handler):
    """``/kernels/ID``: the status of a kernel's job, and its end."""

    async def get(self, id: str) -> None:
        await self.answer(self.kernels.status(id))

    async def delete(self, id: str) -> None:
        await self.answer(self.kernels.stop(id))

    async def prepare(self) -> None:
        if not is_id(self.path_args[0]):
            self.set_status(404)
            self.finish(json.dumps({"message": "There is no such kernel."}))


def sweep(parent: Path) -> None:
    """Remove the folders of this account's servers that were killed: nobody listens there."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
                continue
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(1)
                try:
                    client.connect(str(folder / "broker"))
                except (ConnectionRefusedError, FileNotFoundError):
                    shutil.rmtree(folder, ignore_errors=True)


def serve(kernels: Kernels, folder: Path, more: Sequence[Any] = ()) -> HTTPServer:
    """Serve relays on a socket in ``folder``, of mode 700, and set the variable by which kernels
    and terminals find it. ``more``: further routes."""
    arguments = {"kernels": kernels}
    application = Application(
        [
            ("/about", AboutHandler, arguments),
            ("/kernels", KernelsHandler, arguments),
            ("/kernels/([^/]+)", KernelHandler, arguments),
            *routes_of_runs(kernels.ask),
            *routes_of_models(kernels.ask),
            *routes_of_storages(kernels.ask),
            *more,
        ]
    )
    path = folder / "broker"
    server = HTTPServer(application, max_body_size=LARGEST)
    server.add_socket(bind_unix_socket(str(path), mode=0o600))
    os.environ[VARIABLE] = str(path)
    return server
