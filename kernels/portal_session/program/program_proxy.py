"""Proxy from the browser to a session's program: jupyter-server-proxy, with the program's secret.

Its handlers do the session's login and the websockets. The program sees no cookies of that login,
and the browser never has the program's secret.
"""

from __future__ import annotations

import asyncio
import base64
import html
import re
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server_proxy.handlers import ProxyHandler
from tornado import httputil, web

from .program import Program

_HOST = "127.0.0.1"  # not "localhost": another user may listen on ::1
# Credentials of the session's login, which the program must not get.
_KEPT_BACK = ("Authorization", "Cookie", "X-Xsrftoken")
_SAFE = ("GET", "HEAD", "OPTIONS")
_CONNECTED = 10.0  # seconds that the program has to accept a websocket
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{again}</head>
<body style="font: 1rem system-ui, sans-serif; max-width: 45rem; margin: 4rem auto">
<h1>{title}</h1><p role="status">{words}</p>{more}</body></html>
"""
_FRAMES = "frame-ancestors 'self'"
_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; {_FRAMES}"
)


def add_handlers(web_app: Any, program: Program) -> None:
    """Redirect the session's first page to the program, and proxy everything below
    ``program.base``."""
    given = {"program": program}
    home, base = re.escape(web_app.settings["base_url"]), re.escape(program.base)
    web_app.add_handlers(
        ".*",
        [(home, Home, given), (base[:-1], Home, given), (f"{base}(.*)", ProgramProxy, given)],
    )


class Home(JupyterHandler):
    def initialize(self, program: Program) -> None:
        self.program = program

    @web.authenticated
    def get(self) -> None:
        self.redirect(self.program.base)


class ProgramProxy(ProxyHandler):
    """``<base_url>portal/program/…``, with the whole path passed to the program."""

    def __init__(self, *args: Any, program: Program, **kwargs: Any) -> None:
        self._program = program
        super().__init__(*args, **kwargs)
        self.absolute_url = True

    async def http_get(self, path: str) -> None:
        await self._pass_on(path)

    post = put = delete = patch = head = options = http_get

    async def open(self, path: str) -> None:
        if not self._program.answers:
            self.close(1011, "not running")
            return
        await self.proxy_open(_HOST, self._program.port, path)
        # proxy_open returns before it is connected, and drops what the browser sends meanwhile
        # (jupyter_server_proxy/handlers.py, on_message). Nothing is read before this returns.
        waited = 0.0
        while not hasattr(self, "ws"):
            if waited > _CONNECTED:
                self.close(1011, "no answer")
                return
            await asyncio.sleep(0.02)
            waited += 0.02

    async def _pass_on(self, path: str) -> None:
        if self.request.method not in _SAFE and not self.check_origin():
            raise web.HTTPError(403, "The request does not come from a page of this session.")
        if self._program.answers:
            await self.proxy(_HOST, self._program.port, path)
            if not self._headers_written:  # else they are events, which no frame shows
                # In addition to a policy of the program's: a browser heeds each.
                self._headers.add("Content-Security-Policy", _FRAMES)
                self._headers["X-Frame-Options"] = "SAMEORIGIN"
            return
        if "again" in self.request.query_arguments:
            self._program.start()
            self.redirect(self._program.base)
            return
        self._wait()

    def _wait(self) -> None:
        """Write a page instead of the program's: it reloads until the program answers, or says why
        it ended."""
        title, runs = html.escape(self._program.title), self._program.runs
        sentence = f"{title} is starting…" if runs else f"{title} has ended. Its last output:"
        output = html.escape(self._program.said())
        more = f'<pre style="white-space: pre-wrap">{output}</pre>'
        more += '<p><a href="?again">Start again</a></p>'
        self.set_status(200 if runs else 503)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Cache-Control", "no-store")
        again = '<meta http-equiv="refresh" content="1">' if runs else ""
        self.write(
            _PAGE.format(title=title, again=again, words=sentence, more="" if runs else more)
        )

    def get_client_uri(self, protocol: str, host: str, port: int, path: str) -> str:
        """Return the address as it came, with its query and its quoting."""
        return f"{protocol}://{host}:{port}{self.request.uri}"

    def add_header(self, name: str, value: Any) -> None:
        """Add a header, but no cookie of the program's: the browser is logged in to the session,
        and only the cookies of that login are its own."""
        if name.lower() != "set-cookie" or value in self._login_cookies():
            super().add_header(name, value)

    def set_header(self, name: str, value: Any) -> None:
        """Set a header, but no cookie: jupyter-server-proxy copies some of the program's so."""
        if name.lower() != "set-cookie":
            super().set_header(name, value)

    def _login_cookies(self) -> list[str]:
        cookies = getattr(self, "_new_cookie", None) or {}  # of RequestHandler.set_cookie
        return [cookie.OutputString(None) for cookie in cookies.values()]

    def proxy_request_headers(self) -> httputil.HTTPHeaders:
        headers = super().proxy_request_headers()
        for name in _KEPT_BACK:
            if name in headers:
                del headers[name]
        word = base64.b64encode(f"session:{self._program.secret}".encode()).decode()
        headers["Authorization"] = f"Basic {word}"
        return headers
