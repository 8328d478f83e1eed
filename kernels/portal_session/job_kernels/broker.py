"""Broker of job kernels: the session's server asks the portal on behalf of its relays.

The session's token never leaves the server. Relays are processes of kernels, notebooks and
terminals, without it; they reach the broker over a Unix socket in a folder of mode 700.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

from ..service import Service, ServiceError
from ..situation import in_thread
from .broker_client import VARIABLE
from .record import is_id

LARGEST = 16 * 1024  # bytes of a body
PATH = "session/kernels"  # of the service
PREFIX = "portal-kernels-"  # of the folder with the socket


class Kernels:
    """Job kernels of this session, as the portal told of them."""

    def __init__(self, service: Service | None) -> None:
        self._service = service
        self.told: dict[str, dict[str, Any]] = {}  # the newest answer of the portal, by kernel

    async def offered(self) -> dict[str, Any]:
        """Return what the portal offers, and this node's address. Raises ServiceError."""
        return await self._ask("GET", PATH)

    async def estimate(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return when a kernel with these options would start. Raises ServiceError."""
        return await self._ask("POST", f"{PATH}/estimates", body)

    async def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """Submit the job of a kernel. Raises ServiceError."""
        return await self._ask("POST", PATH, body)

    async def status(self, id: str) -> dict[str, Any]:
        """Return the status of a kernel's job. Raises ServiceError."""
        self.told[id] = answer = await self._ask("GET", f"{PATH}/{id}")
        return answer

    async def stop(self, id: str) -> dict[str, Any]:
        """End the job of a kernel. Raises ServiceError."""
        self.told.pop(id, None)
        return await self._ask("DELETE", f"{PATH}/{id}")

    async def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        if self._service is None:
            raise ServiceError("The portal's address is not set in this session.", 503)
        return await in_thread(self._service.ask, method, path, body)


class _Handler(RequestHandler):
    """Handler of a relay's request: its answer or error is a JSON object."""

    def initialize(self, kernels: Kernels) -> None:
        self.kernels = kernels

    async def answer(self, asked: Any) -> None:
        """Send the result of ``asked``, or the error's sentence."""
        try:
            result = await asked
        except ServiceError as error:
            self.set_status(error.status)
            result = {"message": str(error)}
        self.finish(json.dumps(result))


class AboutHandler(_Handler):
    """``GET /about``: where a relay should listen, and how the nodes reach that."""

    async def get(self) -> None:
        host = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", "")).hostname or ""
        try:
            address = str((await self.kernels.offered()).get("address") or "")
        except ServiceError:
            address = ""
        listen = "" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
        self.finish(json.dumps({"listen": listen, "address": address or listen or "127.0.0.1"}))


class KernelsHandler(_Handler):
    """``POST /kernels``: submit a kernel's job."""

    async def post(self) -> None:
        try:
            body = json.loads(self.request.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self.set_status(400)
            self.finish(json.dumps({"message": "The body must be a JSON object."}))
            return
        await self.answer(self.kernels.start(body))


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


def serve(kernels: Kernels, folder: Path) -> HTTPServer:
    """Serve relays on a socket in ``folder``, of mode 700, and set the variable by which kernels
    and terminals find it."""
    arguments = {"kernels": kernels}
    application = Application(
        [
            ("/about", AboutHandler, arguments),
            ("/kernels", KernelsHandler, arguments),
            ("/kernels/([^/]+)", KernelHandler, arguments),
        ]
    )
    path = folder / "broker"
    server = HTTPServer(application, max_body_size=LARGEST)
    server.add_socket(bind_unix_socket(str(path), mode=0o600))
    os.environ[VARIABLE] = str(path)
    return server
