"""Forwarding of one request to one replica, and of its answer as it comes.

Nothing is buffered but what the two connections hold: a caller that reads slowly slows the program
down, and one that does not read at all is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import time
from asyncio import sslproto
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from ..logs.request import HEADER, request_id
from .bodies import Body
from .errors import SAFE, ReplicaFailed
from .places import Place, Served
from .requests import IDEMPOTENT, returned, sent
from .routes import RoutesFile

# Idle connections end before the node's side ends them (portal_session/serving/listener.py).
IDLE = 20.0
_CONNECT = 5.0  # seconds; a node that is lost does not refuse
_STALLED = 30.0  # seconds for which a caller may leave 64 KiB unread
_READ = 64 * 1024
_HEADER = 64 * 1024  # bytes of one header of an answer
# Bytes of asyncio's buffer for each TLS connection, which it fills with zeros: with its 256 KiB,
# two thousand streams would take half a gigabyte. A TLS record has 16 KiB at most.
_BUFFER = 16 * 1024
# The node's side says that the program has not seen a request: any other replica may have it.
NOT_SEEN = "X-Portal-Not-Seen"
# The replica that is meant: certificates are public, so that an owner could have named another's
# replica on the same node as theirs. Each refuses requests for others.
REPLICA = "X-Portal-Replica"
_AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_TAIL = 2048  # bytes of an answer's end, in which its number of tokens stands
_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,9})')
_SPEAKING = ("application/json", "text/event-stream")


class CallerGone(Exception):
    """Caller that left, or did not read in time."""


class Forwarding:
    """Client of the replicas."""

    def __init__(self, routes: RoutesFile) -> None:
        self._routes = routes
        self.closing = False  # the caller's connection ends with its request
        sslproto.SSLProtocol.max_size = _BUFFER
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=IDLE, ttl_dns_cache=60, socket_factory=_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
            read_bufsize=_READ,
            max_line_size=_HEADER,
            max_field_size=_HEADER,
        )

    async def close(self) -> None:
        """Close all connections to replicas."""
        await self._session.close()

    async def forward(
        self,
        request: web.BaseRequest,
        served: Served,
        place: Place,
        path: str,
        user: str,
        body: Body,
    ) -> web.StreamResponse:
        """Send the request to the place's replica and its answer to the caller.

        Raises ReplicaFailed before the answer's first byte. After it, a failure cuts the caller's
        connection, so that the answer does not look complete.
        """
        began, limits = time.monotonic(), served.model.limits
        try:
            async with asyncio.timeout(limits.seconds) as limit:
                try:
                    replied = await self._ask(request, served.name, place, path, user, body)
                    async with replied:
                        return await self._pass_on(request, served, place, replied)
                except ReplicaFailed as failed:
                    place.fail(failed.words)
                    raise
        except TimeoutError:
            if not limit.expired():
                raise
            words = f"did not answer within {limits.seconds:g} s"
            place.fail(words)
            if request.writer.output_size:
                raise _cut(request) from None
            raise ReplicaFailed(words, sent=True, status=504) from None
        finally:
            seconds = time.monotonic() - began
            place.latencies.add_seconds(seconds)
            place.requests += 1

    async def _ask(
        self, request: web.BaseRequest, name: str, place: Place, path: str, user: str, body: Body
    ) -> aiohttp.ClientResponse:
        """Return the replica's answer, without its body."""
        headers = sent(request.headers, name, user)
        data: Any = body.kept or None
        if not body.complete:
            data = body.parts()
            if body.length is not None:
                headers["Content-Length"] = str(body.length)
        replica = place.replica
        headers[REPLICA] = replica.id
        headers[HEADER] = request_id()
        try:
            response = await self._session.request(
                request.method,
                URL(f"https://{replica.address}{path}", encoded=True),
                headers=headers,
                data=data,
                allow_redirects=False,
                ssl=self._routes.context(replica),
            )
        except aiohttp.ClientConnectorError as error:  # wrong certificates too
            words = f"cannot be reached ({type(error).__name__})"
            raise ReplicaFailed(words, sent=False) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                raise ReplicaFailed("cannot be reached", sent=False) from None
            if body.refused is not None:
                raise body.refused from None
            words = f"did not answer properly ({type(error).__name__})"
            raise ReplicaFailed(words, sent=request.method not in IDEMPOTENT) from None
        if response.headers.get(NOT_SEEN):
            response.release()
            raise ReplicaFailed("takes no requests now", sent=False, status=503)
        return response

    async def _pass_on(
        self,
        request: web.BaseRequest,
        served: Served,
        place: Place,
        replied: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=replied.status, reason=_reason(replied.reason))
        answer.headers.update(returned(replied.headers, served.name))
        answer.headers.update(SAFE)
        answer.headers[HEADER] = request_id()
        if "Content-Length" not in answer.headers and request.version >= (1, 1):
            answer.enable_chunked_encoding()
        if self.closing:
            answer.force_close()
        served.statuses[replied.status] += 1
        if replied.status >= 500:
            place.errors += 1
            place.last_failure = f"answered with {replied.status}"
            place.last_failure_at = time.time()
        else:
            place.succeed()
        tail, speaks = b"", replied.content_type in _SPEAKING
        try:
            async with asyncio.timeout(_STALLED):
                await answer.prepare(request)
            async for part in replied.content.iter_any():
                async with asyncio.timeout(_STALLED):
                    await answer.write(part)
                if speaks:
                    tail = (tail + part)[-_TAIL:]
            async with asyncio.timeout(_STALLED):
                await answer.write_eof()
        except (aiohttp.ClientError, ConnectionError) as error:
            if isinstance(error, ConnectionError) and not isinstance(error, aiohttp.ClientError):
                raise CallerGone from None
            place.fail(f"broke off its answer ({type(error).__name__})")
            served.errors += 1
            await _say_broken(answer, served.name)
            raise _cut(request) from None
        except TimeoutError:
            if (task := asyncio.current_task()) and task.cancelling():
                raise  # of the whole request
            raise _cut(request) from None
        if counts := _TOKENS.findall(tail):
            served.tokens += int(counts[-1])
        return answer


async def _say_broken(answer: web.StreamResponse, name: str) -> None:
    """Tell the reader of events, as OpenAI's API does, that no more will come; what else is under
    way cannot be told, and is cut only."""
    if answer.content_type == "text/event-stream" and "Content-Encoding" not in answer.headers:
        words = f"A replica of model '{name}' broke off its answer."
        body = {"error": {"message": words, "type": "server_error", "code": 502}}
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_STALLED):
                await answer.write(f"\n\ndata: {json.dumps(body)}\n\n".encode())


def _cut(request: web.BaseRequest) -> CallerGone:
    """Cut the caller's connection: what has been sent must not look complete."""
    if request.transport is not None:
        request.transport.abort()
    return CallerGone()


def _reason(words: str | None) -> str | None:
    return words if words and re.fullmatch(r"[\x20-\x7e]{1,100}", words) else None


def _socket(info: Any) -> socket.socket:
    """Return a socket that notices within half a minute that a node is lost (tcp(7))."""
    family, kind, protocol, _, _ = info
    made = socket.socket(family, kind, protocol)
    with contextlib.suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
