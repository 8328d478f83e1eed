"""Load on an endpoint of the demo: its program, and requests at a steady rate, half of them
streams, whose failures are written down."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import aiohttp

PROGRAM = """
import json, os, sys, time
from http.server import BaseHTTPRequestHandler as Base
from socketserver import ThreadingUnixStreamServer as Server
class Handler(Base):
    protocol_version = "HTTP/1.1"
    log_message = lambda *_: None
    def do_GET(self, **what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "events" in said:
            return self.stream(**said)
        seen = {k: v for k, v in self.headers.items()
                if k in ("Authorization", "Cookie") or k.startswith("X-Portal")}
        self.do_GET(said=said, headers=seen, pid=os.getpid())
    def stream(self, events, pause):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(events + 1):
            said = f"data: {number if number < events else '[DONE]'}\\n\\n".encode()
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(said), said))
            self.wfile.flush()
            time.sleep(pause)
        self.wfile.write(b"0\\r\\n\\r\\n")
Server.request_queue_size = 256
Server.daemon_threads = True
Server(sys.argv[1], Handler).serve_forever()
"""
VERSION = {  # of an endpoint, whose program lies in its owner's home
    "environment": "python-venv",
    "command": ["{python}", "echo.py", "{socket}"],
    "example": {"method": "POST", "path": "/v1/say", "body": {"say": "hello"}},
    "paths": ["/v1/"],
    "cpus": 1,
    "memory": "400M",
    "time": "0:30:00",
}
_EVENTS, _PAUSE = 5, 0.1  # of a stream, and seconds between two of them
_WHOLE = "".join(f"data: {number}\n\n" for number in [*range(_EVENTS), "[DONE]"])
_PATIENCE = 60.0  # seconds for one answer
_OPEN = 180  # requests at once; beyond, the generator waits


class Load(threading.Thread):
    """Requests at ``rate`` a second until the block ends; a stream each second time.

    ``answered``: requests whose answer was right; ``streams``: those among them; ``open``: those
    under way; ``failures``: seconds since the beginning, and what came instead.
    """

    def __init__(self, url: str, token: str, rate: float = 100.0) -> None:
        super().__init__(daemon=True)
        self._url, self._token, self._rate = url, token, rate
        self._over = threading.Event()
        self._began = time.monotonic()
        self.answered = self.streams = 0
        self.slowest = 0.0
        self.open = 0
        self.failures: list[tuple[float, str]] = []

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(2 * _PATIENCE)
        assert not self.is_alive()

    def run(self) -> None:
        asyncio.run(self._ask_all())

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def failed_since(self, begin: float) -> list[tuple[float, str]]:
        """Return the failures of requests that began at ``begin`` or later."""
        return [failure for failure in self.failures if failure[0] >= begin]

    async def _ask_all(self) -> None:
        at_once = asyncio.Semaphore(_OPEN)
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
        # A connection of its own for each: what is tested is the portal, not the reuse of
        # connections that the proxy has closed.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        headers = {"Authorization": f"Bearer {self._token}"}
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers) as client,
            asyncio.TaskGroup() as tasks,
        ):
            number, began = 0, time.monotonic()
            while not self._over.is_set():
                await at_once.acquire()
                tasks.create_task(self._ask(client, number)).add_done_callback(
                    lambda _: at_once.release()
                )
                number += 1
                await asyncio.sleep(max(0.0, began + number / self._rate - time.monotonic()))

    async def _ask(self, client: aiohttp.ClientSession, number: int) -> None:
        stream, began = number % 2 == 1, self.now()
        self.open += 1
        body: dict[str, Any] = {"events": _EVENTS, "pause": _PAUSE} if stream else {"say": number}
        read = b""
        try:
            async with client.post(self._url, json=body) as answer:
                async for part in answer.content.iter_any():
                    read += part
            text = read.decode()
            right = answer.status == 200 and (
                text == _WHOLE if stream else json.loads(text)["said"] == body
            )
            problem = "" if right else f"{answer.status}: {text}"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            problem = f"{type(error).__name__} after {read.decode(errors='replace')}"
        self.open -= 1
        if problem:
            self.failures.append((round(began, 2), problem))
        else:
            self.answered += 1
            self.streams += stream
            self.slowest = max(self.slowest, self.now() - began)
