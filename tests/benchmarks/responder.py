"""HTTP server behind all stub sessions, and the clock of those without a Hub.

All requests are answered as by a ready single-user server. Posts below ``/posted/NAME`` are
recorded with their time; ``GET /posted`` returns the records as JSON, {NAME: [Unix seconds, body]},
and clears them. ``GET /posted/NAME/user`` is answered as by a Hub that knows the token as NAME's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

notes: dict[str, list[object]] = {}


def person(name: str) -> dict[str, object]:
    """Return a Hub's answer to a server that asks for the user of a token."""
    return {
        "kind": "user",
        "name": name,
        "admin": False,
        "groups": [],
        "scopes": [f"access:servers!server={name}/"],
    }


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection until it ends."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split(" ", 2)
            length = 0
            for line in head.lower().split("\r\n"):
                if line.startswith("content-length:"):
                    length = int(line.partition(":")[2])
            body = (await reader.readexactly(length)).decode() if length else ""
            content = b'{"version": "0"}'
            if path == "/posted" and method == "GET":
                content = json.dumps(notes).encode()
                notes.clear()
            elif path.startswith("/posted/") and path.split("?")[0].endswith("/user"):
                content = json.dumps(person(path.split("/")[2])).encode()
            elif path.startswith("/posted/") and method == "POST":
                notes.setdefault(path.split("/")[2], [time.time(), body])
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                + f"X-JupyterHub-Version: {VERSION}\r\n".encode()
                + f"Content-Length: {len(content)}\r\n\r\n".encode()
                + content
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    finally:
        writer.close()


async def main(port: int) -> None:
    """Serve on the loopback port ``port`` until this process ends."""
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    VERSION = sys.argv[2]
    asyncio.run(main(int(sys.argv[1])))
