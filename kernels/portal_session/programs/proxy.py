"""Proxy from the browser to a program of the session: jupyter-server-proxy, to a Unix socket or a
port of loopback.

Its handlers do the session's login and the websockets. Plain responses are streamed (its own way
holds them in memory, and ends at 100 MB). The program sees no credentials of that login, the
browser none of the program's, and no other site shows the program in a frame.
"""

from __future__ import annotations

import asyncio
import base64
from abc import abstractmethod
from typing import Any

import aiohttp
from jupyter_server_proxy.handlers import ProxyHandler
from tornado import httputil, web
from yarl import URL

from .target import Target

CHUNK = 256 * 1024  # bytes
QUIET = 7200.0  # seconds without a byte: some answer slowly, or with events
# Credentials of the session's login, which the program must not get.
_WITHHELD = ("Authorization", "Cookie", "X-Xsrftoken")
_SAFE = ("GET", "HEAD", "OPTIONS")
_CONNECTED = 10.0  # seconds that the program has to accept a websocket
# RFC 9110, 7.6.1: headers of one connection, not of the message.
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"} | {
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
}
# In addition to a policy of the program's: a browser heeds each.
_ADDED = {
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
}


class SessionProxy(ProxyHandler):
    """Requests for one program, with their path as it came."""

    title = "The program"
    is_activity = True  # requests keep the session from counting as idle

    @abstractmethod
    def target(self) -> Target | None:
        """Return where the program answers; None while it does not."""

    @abstractmethod
    def answered(self, path: str) -> bool:
        """Answer a request that the program itself cannot answer yet; return True if it was."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, absolute_url=True, **kwargs)
        self.update_last_activity = self.is_activity
        self._target: Target | None = None

    @property
    def unix_socket(self) -> str | None:
        socket = self._target.socket if self._target else None
        return str(socket) if socket else None

    async def open(self, path: str) -> None:
        self._target = self.target()
        if self._target is None:
            self.close(1011, "not running")
            return
        await self.proxy_open(self._target.host, self._target.port, path)
        # proxy_open may return before it is connected, and drops what the browser sends meanwhile
        # (jupyter_server_proxy/handlers.py, on_message). Nothing is read before this returns.
        waited = 0.0
        while not hasattr(self, "ws"):
            if waited > _CONNECTED:
                self.close(1011, "no answer")
                return
            await asyncio.sleep(0.02)
            waited += 0.02

    async def http_get(self, path: str) -> None:
        if self.request.method not in _SAFE and not self.check_origin():
            raise web.HTTPError(403, "The request does not come from a page of this session.")
        if self.answered(path):
            return
        self._target = self.target()
        if self._target is None:
            raise web.HTTPError(503, f"{self.title} does not answer. Try again.")
        self._record_activity()
        await self._ask(self._target)

    post = put = delete = patch = head = options = http_get

    async def _ask(self, target: Target) -> None:
        headers = [
            (name, value)
            for name, value in self.proxy_request_headers().get_all()
            if name.lower() not in _HOP_BY_HOP
        ]
        url = URL(self.get_client_uri("http", target.host, target.port, ""), encoded=True)
        socket = self.unix_socket
        session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(socket) if socket else aiohttp.TCPConnector(),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=QUIET),
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        )
        try:
            async with (
                session,
                session.request(
                    self.request.method or "GET",
                    url,
                    headers=headers,
                    data=self.request.body or None,
                    allow_redirects=False,
                ) as response,
            ):
                await self._pass_on(response, target)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.log.info("%s does not answer: %r", self.title, error)
            if self._headers_written:
                # A truncated response must not look complete.
                self.request.connection.stream.close()
                return
            raise web.HTTPError(503, f"{self.title} does not answer. Try again.") from error

    async def _pass_on(self, response: aiohttp.ClientResponse, target: Target) -> None:
        self.set_status(response.status, response.reason)
        self._headers = httputil.HTTPHeaders()
        for name, value in response.headers.items():
            lower = name.lower()
            if lower == "location" and target.stripped and value.startswith("/"):
                value = target.stripped.rstrip("/") + value
            # The browser is logged in to the session: only the cookies of that login are its own.
            if lower not in _HOP_BY_HOP and lower != "set-cookie":
                self.add_header(name, value)
        for name, value in _ADDED.items():
            self.add_header(name, value)
        self.set_header("X-Frame-Options", "SAMEORIGIN")
        async for chunk in response.content.iter_chunked(CHUNK):
            self.write(chunk)
            # Not self.flush(): the mixin for websockets drops the awaitable.
            await web.RequestHandler.flush(self)
        self._record_activity()

    def get_client_uri(self, protocol: str, host: str, port: int, path: str) -> str:
        """Return the address as it came, with its query and its quoting, for the program."""
        uri, stripped = self.request.uri or "/", self._target.stripped if self._target else ""
        where = f"{host}:{port}" if port else host
        return f"{protocol}://{where}/{uri[len(stripped or '/') :]}"

    def proxy_request_headers(self) -> httputil.HTTPHeaders:
        headers = super().proxy_request_headers()
        for name in _WITHHELD:
            if name in headers:
                del headers[name]
        if self._target is not None and self._target.secret:
            word = base64.b64encode(f"session:{self._target.secret}".encode()).decode()
            headers["Authorization"] = f"Basic {word}"
        if self._target is not None and self._target.stripped:
            headers["X-Forwarded-Prefix"] = self._target.stripped.rstrip("/")
        return headers
