"""Endpoints for sessions' tokens, served over HTTP without the rest of the service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jupyterhub.services.auth import HubAuth
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.handlers.base.endpoint import Endpoint


def serve(
    kinds: Iterable[type[Endpoint]], parts: Any, hub_port: int, servers: list[HTTPServer]
) -> str:
    """Serves them with ``parts``, and gives the API's address; who a token belongs to is asked of
    a Hub on ``hub_port``. The server is added to ``servers``, which the test stops."""
    auth = HubAuth(
        api_url=f"http://127.0.0.1:{hub_port}/hub/api", api_token="service", cache_max_age=300
    )
    web = Application(
        [kind.route(parts.prefix) for kind in kinds],
        parts=parts,
        log=parts.log,
        session_tokens=auth,
        hub_auth=auth,
        log_function=lambda _: None,
    )
    listening, port = bind_unused_port()
    servers.append(HTTPServer(web))
    servers[-1].add_socket(listening)
    return f"http://127.0.0.1:{port}{parts.prefix}api/v1/"
