"""HTTP server of the gateway: aiohttp's, with a bound of connections, and errors as JSON."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from .errors import Refused, answer

# A connection without a request, or whose request's head is not complete, ends after this.
HEAD = 20.0
_LINE = 8 * 1024  # bytes of the address
_FIELD = 16 * 1024  # bytes of one header; a token has some dozens
_FIELDS = 100
_MALFORMED = "The request is not well-formed HTTP, or its head is too large."
_Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server(web.Server):
    """Server whose connections are bounded: ``most`` in all, and ``per_address`` of each address
    that is not one of ``proxies``."""

    def __init__(
        self,
        handle: _Handle,
        log: logging.Logger,
        *,
        most: int = 10_000,
        per_address: int,
        proxies: frozenset[str],
    ) -> None:
        super().__init__(handle, handler_cancellation=True)
        self._log, self._most, self._per_address = log, most, per_address
        self._proxies = proxies
        self._addresses: Counter[str] = Counter()
        self.open = 0

    def __call__(self) -> RequestHandler:
        """Return the protocol of one new connection."""
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,
            logger=_Quiet(self._log),
            keepalive_timeout=HEAD,
            max_line_size=_LINE,
            max_field_size=_FIELD,
            max_headers=_FIELDS,
            lingering_time=0.0,
            auto_decompress=False,
        )

    def admit(self, address: str) -> bool:
        """Count a connection; return False if there are too many."""
        counted = address not in self._proxies
        if self.open >= self._most or (counted and self._addresses[address] >= self._per_address):
            return False
        self.open += 1
        self._addresses[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count a connection no more."""
        self.open -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]


class _Connection(RequestHandler):
    __slots__ = ("_admitted", "_server")

    def __init__(self, server: Server, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._server: Server = server
        self._admitted: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        name = transport.get_extra_info("peername")
        address = str(name[0]) if isinstance(name, tuple) else "local"
        super().connection_made(transport)
        if self._server.admit(address):
            self._admitted = address
        else:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._admitted is not None:
            self._server.leave(self._admitted)
            self._admitted = None
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to a malformed request, or to a fault of the gateway's own."""
        if request.writer.output_size > 0:
            raise ConnectionError("Part of an answer has been sent.")
        if status >= 500:
            self._server._log.error("A request failed: %r", exc, exc_info=exc)
        own = "The gateway failed. Tell an administrator of the portal."
        refused = Refused(status, own if status >= 500 else _MALFORMED)
        response = answer(refused)
        response.force_close()
        return response


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """Logger without what callers can make aiohttp write at will."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(log, {})

    def isEnabledFor(self, level: int) -> bool:
        return level > logging.ERROR
