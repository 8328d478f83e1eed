"""Program of an endpoint, on the Unix socket of its argument: it echoes, streams and misbehaves."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from aiohttp import web

_PR_SET_PDEATHSIG = 1  # prctl(2)


_broken = ""  # how the health path misbehaves


async def health(request: web.Request) -> web.Response:
    if _broken == "hangs":
        await asyncio.sleep(3600)
    if _broken == "garbage":
        return await garbage(request)
    return web.Response(text="ok", status=int(_broken or 200))


async def break_health(request: web.Request) -> web.Response:
    """Have the health path answer with a status, with garbage, or never."""
    global _broken
    _broken = request.query["how"]
    return web.Response(text=str(os.getpid()))


async def echo(request: web.Request) -> web.Response:
    body = await request.read()
    shown = {
        "pid": os.getpid(),
        "method": request.method,
        "path": request.raw_path,
        "headers": [[key, value] for key, value in request.headers.items()],
        "size": len(body),
        "body": body[:200].decode(errors="replace"),
        "usage": {"completion_tokens": 7},
    }
    answer = web.json_response(shown)
    answer.headers["Set-Cookie"] = "jupyterhub-session-id=stolen"
    answer.headers["X-Own"] = "passed"
    return answer


async def stream(request: web.Request) -> web.StreamResponse:
    """Send ``n`` events, one each ``pause`` seconds."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    for number in range(int(request.query.get("n", "5"))):
        await answer.write(f"data: {json.dumps({'n': number})}\n\n".encode())
        await asyncio.sleep(float(request.query.get("pause", "0.05")))
    await answer.write(b"data: [DONE]\n\n")
    return answer


async def flood(request: web.Request) -> web.StreamResponse:
    """Send as fast as it is read; say on disk how much that was."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    sent = 0
    try:
        while sent < 400 * 1024 * 1024:
            await answer.write(b"x" * 65536)
            sent += 65536
    finally:
        Path(request.query["log"]).write_text(str(sent))
    return answer


async def slow(request: web.Request) -> web.Response:
    await asyncio.sleep(float(request.query.get("seconds", "1")))
    return web.Response(text="slow")


async def die(request: web.Request) -> web.Response:
    print("it dies", file=sys.stderr, flush=True)
    os._exit(3)


async def half(request: web.Request) -> web.StreamResponse:
    """Break off an answer in its middle."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return answer


async def garbage(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.write(b"this is not HTTP\r\n\r\n")  # type: ignore[attr-defined]
    request.transport.close()
    return web.Response()


def main() -> None:
    # A replica that a test kills, or a test that is cut off, leaves no program behind.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_get("/health", health)
    app.router.add_get("/break", break_health)
    app.router.add_route("*", "/v1/stream", stream)
    app.router.add_get("/flood", flood)
    app.router.add_route("*", "/slow", slow)
    app.router.add_route("*", "/die", die)
    app.router.add_get("/half", half)
    app.router.add_route("*", "/garbage", garbage)
    app.router.add_route("*", "/{rest:.*}", echo)
    web.run_app(app, path=sys.argv[1], access_log=None, print=None, handler_cancellation=True)


if __name__ == "__main__":
    main()
