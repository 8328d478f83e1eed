"""A tornado application on a free loopback port, with raw requests to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application


@dataclass
class Answer:
    """Response: status (0 if the connection was cut), headers by lower-case name, and the text of
    the body."""

    status: int
    headers: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""


@dataclass
class Served:
    """Application that listens at ``port``."""

    port: int

    async def ask(
        self,
        method: str,
        path: str,
        host: str = "localhost",
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        chunk: int = 0,
    ) -> Answer:
        """Send a request; with ``chunk``, the body is sent in chunks of so many bytes, without its
        length."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        if chunk:
            lines.append("Transfer-Encoding: chunked")
        elif body:
            lines.append(f"Content-Length: {len(body)}")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        try:
            with contextlib.suppress(ConnectionError):
                writer.write("\r\n".join([*lines, "", ""]).encode("latin1"))
                for at in range(0, len(body), chunk or 65536):
                    piece = body[at : at + (chunk or 65536)]
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunk else piece)
                    await writer.drain()
                if chunk:
                    writer.write(b"0\r\n\r\n")
                    await writer.drain()
            raw = b""
            with contextlib.suppress(ConnectionError):
                raw = await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()
        head, _, text = raw.partition(b"\r\n\r\n")
        if not head:
            return Answer(0)
        first, *rest = head.decode("latin1").split("\r\n")
        answer = Answer(int(first.split()[1]), text=text.decode(errors="replace"))
        for line in rest:
            name, _, value = line.partition(": ")
            answer.headers.setdefault(name.lower(), []).append(value)
        return answer


@contextlib.asynccontextmanager
async def served(application: Application, **limits: Any) -> AsyncIterator[Served]:
    """Serve ``application`` as the Hub does, on its own port."""
    server = HTTPServer(application, xheaders=True, **limits)
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    try:
        yield Served(sockets[0].getsockname()[1])
    finally:
        server.stop()
        await server.close_all_connections()
