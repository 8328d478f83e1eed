"""Forwarding of the gateway's requests to the endpoint's program, and of its answers as they come.

The gateway has checked the requests, and speaks for their callers. What the program has not seen is
said with a header, so that the gateway can give the request to another replica.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, Callable

import aiohttp
from aiohttp import web

from ..programs.target import Target

NOT_SEEN = "X-Portal-Not-Seen"
REPLICA = "X-Portal-Replica"  # the id of the replica that the gateway means
_AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_READ = 64 * 1024
_HEADER = 64 * 1024
_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


class Forwarding:
    """Handler of the gateway's requests. ``target`` returns where the program answers, or None;
    ``id_`` is the replica's: what is meant for another is refused, since an owner could have named
    this one as theirs."""

    def __init__(self, target: Callable[[], Target | None], id_: str = "") -> None:
        self._target, self._id = target, id_
        self.draining = False
        self.in_flight = 0
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        """Close all connections to the program."""
        for session in self._sessions.values():
            await session.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.in_flight += 1
        try:
            return await self._answered(request)
        finally:
            self.in_flight -= 1

    async def answers(self, path: str, seconds: float) -> bool:
        """Return True if the program answers ``path`` with success within ``seconds``."""
        target = self._target()
        if target is None:
            return False
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session(target).get(
                _url(target, path), headers=_own(target), timeout=limit, allow_redirects=False
            ) as response:
                await response.content.read(_READ)
                return 200 <= response.status < 400
        except (aiohttp.ClientError, OSError, ValueError, asyncio.TimeoutError):
            return False

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._id and request.headers.get(REPLICA) != self._id:
            return _refusal(421, "This request is for another replica.", seen=False)
        target = None if self.draining else self._target()
        if target is None:
            return _refusal(503, "This replica takes no requests now.", seen=False)
        headers = {**_passed(request.headers), **_own(target)}
        headers.pop(REPLICA, None)
        data: Any = None
        if request.body_exists:
            data = request.content.iter_any()
            if request.content_length is not None:
                headers["Content-Length"] = str(request.content_length)
        try:
            replied = await self._session(target).request(
                request.method,
                _url(target, request.raw_path),
                headers=headers,
                data=data,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError:
            return _refusal(503, "The endpoint's program does not listen.", seen=False)
        except (aiohttp.ClientError, OSError, ValueError):
            return _refusal(502, "The endpoint's program did not answer properly.", seen=True)
        async with replied:
            answer = web.StreamResponse(status=replied.status, reason=replied.reason)
            for key, value in _passed(replied.headers).items():
                if key.lower() != NOT_SEEN.lower():
                    answer.headers[key] = value
            if "Content-Length" not in answer.headers:
                answer.enable_chunked_encoding()
            if self.draining:
                answer.force_close()
            try:
                await answer.prepare(request)
                async for part in replied.content.iter_any():
                    await answer.write(part)
                await answer.write_eof()
            except aiohttp.ClientError:
                # Cut, so that the answer does not look complete.
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError from None
            return answer

    def _session(self, target: Target) -> aiohttp.ClientSession:
        """Return the client for the program's address."""
        key = str(target.socket or target.port)
        if key not in self._sessions:
            # A connection for each request: programs end idle ones when they like, and a request
            # that is not idempotent could not be sent again.
            settings: dict[str, Any] = {"limit": 0, "force_close": True}
            connector: aiohttp.BaseConnector = (
                aiohttp.UnixConnector(path=key, **settings)
                if target.socket
                else aiohttp.TCPConnector(**settings)
            )
            self._sessions[key] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_AUTOMATIC,
                timeout=aiohttp.ClientTimeout(total=None),
                read_bufsize=_READ,
                max_line_size=_HEADER,
                max_field_size=_HEADER,
            )
        return self._sessions[key]


def _url(target: Target, path: str) -> Any:
    from yarl import URL

    port = f":{target.port}" if target.port else ""
    return URL(f"http://{target.host}{port}{path}", encoded=True)


def _own(target: Target) -> dict[str, str]:
    """Return the header that proves to a program with {secret} that the replica asks."""
    if not target.secret:
        return {}
    word = base64.b64encode(f"session:{target.secret}".encode()).decode()
    return {"Authorization": f"Basic {word}"}


def _passed(headers: Any) -> Any:
    """Return the headers that are for both sides of the replica."""
    passed = headers.copy()
    for key in headers:
        if key.lower() in _HOP_BY_HOP and key in passed:
            passed.popall(key)
    return passed


def _refusal(status: int, words: str, *, seen: bool) -> web.Response:
    headers = {} if seen else {NOT_SEEN: "1"}
    body = json.dumps({"error": {"message": words, "type": "server_error", "code": status}})
    response = web.Response(
        status=status, headers=headers, text=body, content_type="application/json"
    )
    response.force_close()
    return response
