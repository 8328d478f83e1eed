"""Stand-in for the Hub of one server: it takes the port and knows one token."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from jupyterhub import __version__
from tornado.escape import json_decode
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

USER = "check"
PREFIX = f"/user/{USER}/"
_SCOPE = f"access:servers!server={USER}/"


class CheckHub:
    """HTTP server on loopback between ``start`` and ``stop``. ``port`` is that of the session's
    server, once it is reported."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._server: HTTPServer | None = None
        self._address = ""

    def start(self) -> None:
        shared = {"hub": self}
        routes: list[Any] = [
            ("/hub/api/portal/port", Port, shared),
            ("/hub/api/user", User, shared),
            ("/hub/api/?", Version, shared),
            ("/hub/api/.*", EmptyAnswer, shared),
        ]
        self._server = HTTPServer(Application(routes, log_function=lambda _: None))
        sockets = bind_sockets(0, "127.0.0.1")
        self._server.add_sockets(sockets)
        self._address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api"

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def environment(self) -> dict[str, str]:
        """Return a session's environment variables (jupyterhub/spawner.py, get_env)."""
        return {
            "JUPYTERHUB_API_URL": self._address,
            "JUPYTERHUB_ACTIVITY_URL": f"{self._address}/users/{USER}/activity",
            "JUPYTERHUB_API_TOKEN": self.token,
            "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:0{PREFIX}",
            "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
            "JUPYTERHUB_USER": USER,
            "JUPYTERHUB_SERVER_NAME": "",
            "JUPYTERHUB_CLIENT_ID": f"jupyterhub-user-{USER}",
            "JUPYTERHUB_HOST": "",
            "JUPYTERHUB_BASE_URL": "/",
            "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback",
            "JUPYTERHUB_OAUTH_SCOPES": f'["{_SCOPE}"]',
            "JUPYTERHUB_OAUTH_ACCESS_SCOPES": f'["{_SCOPE}"]',
            "JUPYTERHUB_OAUTH_CLIENT_ALLOWED_SCOPES": "[]",
        }


class Answer(RequestHandler):
    """Base class: answers 403 without the token."""

    def initialize(self, hub: CheckHub) -> None:
        self.hub = hub

    def prepare(self) -> None:
        self.set_header("X-JupyterHub-Version", __version__)
        if self.request.headers.get("Authorization") != f"token {self.hub.token}":
            self.set_status(403)
            self.finish({})


class Version(Answer):
    def prepare(self) -> None:
        """Allow requests without a token."""
        self.set_header("X-JupyterHub-Version", __version__)

    def get(self) -> None:
        self.finish({"version": __version__})


class Port(Answer):
    def post(self) -> None:
        if not self.hub.port.done():
            self.hub.port.set_result(int(json_decode(self.request.body)["port"]))
        self.set_status(201)
        self.finish({})


class User(Answer):
    def get(self) -> None:
        self.finish(
            {"kind": "user", "name": USER, "scopes": [_SCOPE], "groups": [], "admin": False}
        )


class EmptyAnswer(Answer):
    def get(self) -> None:
        self.finish({})

    post = get
