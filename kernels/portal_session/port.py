"""Server extension that takes a free port and tells the Hub which one.

Nobody knows a free port of the node before the session starts there. The spawner names port 0 (in
JUPYTERHUB_SERVICE_URL), the operating system picks one when the server binds, and this extension
posts it to the Hub's API until the Hub has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.netutil import bind_sockets

from . import startup

FIRST_WAIT = 0.2  # seconds before the first repetition; doubled each time up to
LONGEST_WAIT = 10.0  # while the Hub does not answer, or answers that it cannot now
REFUSED_WAIT = 30.0  # after a refusal: the Hub may know this session again after its restart
TIMEOUT = 20.0  # seconds for one request
# 401 and 403: the token is unknown; 404 and 410: the route or the session is.
_REFUSED = frozenset({401, 403, 404, 410})


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension, before jupyter_server binds. ``app`` is its ServerApp."""
    if asks_for_free_port():
        take_free_port(app)


def asks_for_free_port() -> bool:
    """Return True if JUPYTERHUB_SERVICE_URL names port 0: "take one and tell the Hub"."""
    return urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", "")).port == 0


def take_free_port(app: Any) -> None:
    """Make ``app`` listen on a port that the operating system picks, with no race.

    jupyterhub reads port 0 as "80", and jupyter_server looks for a free port, releases it and
    binds it again. Here the sockets are bound once and handed to the HTTP server.
    """

    def find() -> None:
        app.portal_sockets = _bind(app.ip)
        app.port = app.portal_sockets[0].getsockname()[1]

    def bind() -> bool:
        app.http_server.add_sockets(app.portal_sockets)
        startup.mark("extensions")
        api = os.environ.get("JUPYTERHUB_API_URL", "")
        token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
        if api and token:
            # Kept on the app, since the event loop holds no strong reference to a task.
            app.portal_post = asyncio.ensure_future(post_port(api, token, app.port, app.log))
        return True

    app._find_http_port = find
    app._bind_http_server_tcp = bind


def _bind(address: str) -> list[socket.socket]:
    """Return listening sockets on one free port; several if ``address`` is empty (IPv4 and
    IPv6)."""
    for _ in range(10):
        # The port that is free for one family can be taken for the other.
        with contextlib.suppress(OSError):
            return bind_sockets(0, address)
    return bind_sockets(0, address)


async def post_port(api: str, token: str, port: int, log: Any) -> None:
    """Post ``{"port": port}`` to ``api``/portal/port until the answer is 2xx.

    Never gives up: the Hub may be down or restarting while the job starts; the task ends with the
    session.
    """
    request = HTTPRequest(
        api.rstrip("/") + "/portal/port",
        method="POST",
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        body=json.dumps({"port": port}),
        connect_timeout=TIMEOUT,
        request_timeout=TIMEOUT,
        follow_redirects=False,  # the token goes to the Hub and nowhere else
        ssl_options=client_tls(os.environ) if api.startswith("https:") else None,
    )
    wait = FIRST_WAIT
    reported = ""
    while True:
        pause = wait
        try:
            response = await AsyncHTTPClient().fetch(request)
        except HTTPClientError as error:
            problem = f"answered {error.code} ({error.message})"
            if error.code in _REFUSED:
                pause = REFUSED_WAIT
        except Exception as error:  # any error: the next try may work
            problem = f"could not be reached ({error!r})"
        else:
            startup.mark("listening")
            if reported:
                log.info("The Hub now knows the port of this session.")
            _compare_versions(response.headers.get("X-JupyterHub-Version", ""), log)
            return
        if problem != reported:
            log.warning(
                "The Hub does not know the port of this session: it %s. Retrying, at most "
                "%.0f seconds apart.",
                problem,
                max(pause, LONGEST_WAIT),
            )
            reported = problem
        await asyncio.sleep(pause)
        wait = min(wait * 2, LONGEST_WAIT)


def client_tls(environ: Any) -> ssl.SSLContext | None:
    """Return the TLS context of JupyterHub's ``internal_ssl``: this server's certificate and the
    Hub's CA.

    None if the session has no certificate of its own: then the system's authorities apply.
    """
    key = environ.get("JUPYTERHUB_SSL_KEYFILE")
    certificate = environ.get("JUPYTERHUB_SSL_CERTFILE")
    if not key or not certificate:
        return None
    context = ssl.create_default_context(cafile=environ.get("JUPYTERHUB_SSL_CLIENT_CA") or None)
    context.load_cert_chain(certificate, key)
    return context


def _compare_versions(hub: str, log: Any) -> None:
    """Log a warning if the Hub's JupyterHub is of another major version than this one."""
    from jupyterhub import __version__

    if hub and hub.split(".")[0] != __version__.split(".")[0]:
        log.warning(
            "JupyterHub is %s on the Hub and %s in this environment: logging in may fail.",
            hub,
            __version__,
        )
