"""Proxy from the browser to a TensorBoard: jupyter-server-proxy, to a Unix socket.

Its handlers do the authentication and the websockets. Plain responses are streamed (its own way
holds them in memory, and ends at 100 MB), and no request counts as activity: a TensorBoard in a
forgotten tab polls for ever.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from jupyter_server_proxy.handlers import NamedLocalProxyHandler
from tornado import httputil, web
from yarl import URL

from .pages import show_waiting
from .running import TensorBoards
from .runtime import PATH

CHUNK = 256 * 1024  # bytes
QUIET = 600.0  # seconds without a byte: TensorBoard answers slowly while it reads
# Credentials of the session's login, which TensorBoard must not get.
_KEPT_BACK = ("Authorization", "Cookie", "X-Xsrftoken")
# RFC 9110, 7.6.1: headers of one connection, not of the message.
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"} | {
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
}


class TensorBoardProxy(NamedLocalProxyHandler):
    """``/portal/tensorboard/NUMBER/…``, with the whole path passed to TensorBoard
    (--path_prefix)."""

    def __init__(self, *args: Any, boards: TensorBoards, number: str, **kwargs: Any) -> None:
        self._boards = boards
        self._number = int(number)
        super().__init__(*args, **kwargs)
        self.absolute_url = True
        self.update_last_activity = False
        self.name = "tensorboard"
        self.proxy_base = f"{PATH}{number}"

    @property
    def unix_socket(self) -> str | None:
        socket = self._boards.socket(self._number)
        return str(socket) if socket else None

    async def open(self, path: str) -> None:
        if self.unix_socket is None:
            self.close(1011, "not running")
            return
        await super().open(path)

    async def proxy(self, port: int, path: str) -> None:
        if show_waiting(self, self._boards, self._number, path):
            return
        # Unchanged: TensorBoard serves below the same path.
        url = URL(f"http://localhost{self.request.uri}", encoded=True)
        headers = [
            (name, value)
            for name, value in self.proxy_request_headers().get_all()
            if name.lower() not in _HOP_BY_HOP
        ]
        connector = aiohttp.UnixConnector(str(self.unix_socket))
        session = aiohttp.ClientSession(
            connector=connector,
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
                await self._pass_on(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.log.info("TensorBoard %s does not answer: %r", self._number, error)
            if self._headers_written:
                # A truncated response must not look complete.
                self.request.connection.stream.close()
                return
            raise web.HTTPError(503, "TensorBoard does not answer. Try again.") from error

    async def _pass_on(self, response: aiohttp.ClientResponse) -> None:
        self.set_status(response.status, response.reason)
        self._headers = httputil.HTTPHeaders()
        for name, value in response.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.add_header(name, value)
        policy = self._headers.get("Content-Security-Policy", "")
        self.set_header(
            "Content-Security-Policy", "; ".join(filter(None, (policy, "frame-ancestors 'self'")))
        )
        self.set_header("X-Content-Type-Options", "nosniff")
        async for chunk in response.content.iter_chunked(CHUNK):
            self.write(chunk)
            # Not self.flush(): the mixin for websockets drops the awaitable.
            await web.RequestHandler.flush(self)

    def proxy_request_headers(self) -> httputil.HTTPHeaders:
        headers = super().proxy_request_headers()
        for name in _KEPT_BACK:
            if name in headers:
                del headers[name]
        return headers
