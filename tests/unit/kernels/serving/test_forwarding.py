"""What a replica passes on to its endpoint's program."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from portal_session.programs.target import Target
from portal_session.serving.forwarding import Forwarding

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_program_may_end_idle_connections_when_it_likes(tmp_path: Path) -> None:
    """It answers one request and ends the connection at the next one's first byte: the worst
    moment, at which a POST cannot be sent again."""
    program = tmp_path / "program"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.write(ANSWER)
        await reader.read(1)
        writer.close()

    forwarding = Forwarding(lambda: Target(program))
    app = web.Application()
    app.router.add_post("/", forwarding.handle)
    async with (
        await asyncio.start_unix_server(answer, program),
        TestServer(app) as replica,
        ClientSession() as gateway,
    ):
        for _ in range(3):
            async with gateway.post(replica.make_url("/"), data=b"{}") as answered:
                assert (answered.status, await answered.text()) == (200, "ok")
        await forwarding.close()
