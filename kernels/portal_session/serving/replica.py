"""Replica: the endpoint's program, kept running, its listener, and the reports to the service."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Callable

from aiohttp import web

from ..job_kernels.wire.keys import context, make_keys
from ..job_kernels.wire.listener import listening
from ..programs.program import Program
from ..programs.runtime import Runtime
from .definition import Definition
from .forwarding import Forwarding
from .listener import Listener

_PREFIX = "portal-ep-"
_LOOK = 0.2  # seconds between two looks at the program
_DEATHS = 5  # of the program in ...
_PERIOD = 600.0  # ... seconds, after which the job fails
_AGAIN = 30.0  # seconds between two reports of the same
_RETRY = 2.0  # seconds until a report is repeated that did not arrive
# Seconds for which idle connections stay at the end: a request that is sent on one is told that it
# was not seen, where a closed connection would leave that open.
_LINGER = 3.0
_HEALTH = 5.0  # seconds for one answer about the program's health
_ASK = 5.0  # seconds between two questions about it, once it answers
_SILENT = 30.0  # seconds without such an answer, after which the program gets no new requests


class ReplicaError(Exception):
    """Replica that cannot serve; the message is a sentence, and the end of the program's log."""


class Replica:
    """Endpoint's program in this job. ``report`` tells the service; it blocks, and raises OSError
    or PortalError if that is impossible now."""

    def __init__(
        self,
        definition: Definition,
        environ: Mapping[str, str],
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        self._definition, self._report = definition, report
        self._runtime = Runtime.make(environ, _PREFIX)
        self._program = Program(
            {"title": "The endpoint", "argv": definition.argv},
            self._runtime.path,
            "/",
            definition.folder,
            environ,
        )
        self._forwarding = Forwarding(self._program.target, definition.id)
        self._deaths: deque[float] = deque()
        self._stopped = asyncio.Event()
        self._changed = asyncio.Event()
        self._ready = False
        self._heard = 0.0  # the program's last answer about its health, by the monotonic clock
        self.port = 0
        self._certificate = ""

    async def run(self) -> None:
        """Serve until SIGTERM, then let requests end. Raises ReplicaError, OSError, ssl.SSLError,
        ValueError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        self._certificate, key = make_keys()
        tls = context(self._certificate, key, server=True, peer=self._definition.gateway)
        bound = listening("", socket.AF_INET, self._definition.ports)
        self.port = bound.getsockname()[1]
        server = web.Server(
            self._forwarding.handle,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=60.0,  # longer than the gateway holds an idle connection
            lingering_time=0.0,
            max_line_size=16 * 1024,
            max_field_size=64 * 1024,
            auto_decompress=False,
        )
        listener = Listener(bound, tls, server)
        tasks = [
            asyncio.ensure_future(task) for task in (self._keep_reporting(), self._keep_asking())
        ]
        try:
            await self._keep_running()
            self._forwarding.draining = True
            self._say(False)
            await listener.close()
            await self._drain()
        finally:
            await listener.close()
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await server.shutdown(1.0)
            await self._forwarding.close()
            await loop.run_in_executor(None, self._program.stop)
            self._runtime.remove()

    async def _keep_running(self) -> None:
        """Start the program, again if it dies, until the job is told to end. Raises
        ReplicaError."""
        while not self._stopped.is_set():
            self._program.start()
            began = time.monotonic()
            while self._program.runs and not self._stopped.is_set():
                now = time.monotonic()
                if not self._ready and self._heard > began:
                    print("The endpoint's program answers.", file=sys.stderr, flush=True)
                    self._say(True)
                elif not self._ready and now - began > self._definition.load:
                    words = f"did not answer within {self._definition.load:g} s"
                    raise ReplicaError(self._with_log(words))
                elif self._ready and now - self._heard > _SILENT:
                    words = f"has not answered {self._definition.health} for {_SILENT:g} s"
                    print(self._with_log(words), file=sys.stderr, flush=True)
                    self._say(False)
                    began = now
                await self._pause(_LOOK)
            if self._stopped.is_set():
                return
            self._say(False)
            self._count_death()
            await self._pause(min(30.0, 2.0 ** len(self._deaths) / 2))

    async def _keep_asking(self) -> None:
        """Ask the program for its health: all the time until it answers, then now and then."""
        while True:
            began = time.monotonic()
            if await self._forwarding.answers(self._definition.health, _HEALTH):
                self._heard = began
            while self._ready and time.monotonic() < began + _ASK:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)
            await asyncio.sleep(_LOOK)

    def _count_death(self) -> None:
        """Note that the program has died. Raises ReplicaError if it does so again and again."""
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - _PERIOD:
            self._deaths.popleft()
        print(self._with_log("has ended"), file=sys.stderr, flush=True)
        if len(self._deaths) >= _DEATHS:
            raise ReplicaError(self._with_log(f"has ended {_DEATHS} times"))

    def _with_log(self, words: str) -> str:
        output = self._program.output().strip() or "(nothing)"
        return f"The endpoint's program {words}. The end of its log:\n{output}"

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the job is told to end."""
        await _wait_for(self._stopped, seconds)

    async def _drain(self) -> None:
        """Wait until no request is in flight, for the time that they have."""
        now = time.monotonic()
        least, most = now + _LINGER, now + max(_LINGER, self._definition.drain)
        while time.monotonic() < (most if self._forwarding.in_flight else least):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if self._forwarding.in_flight:
            words = f"{self._forwarding.in_flight} requests are cut: their time is over."
            print(words, file=sys.stderr, flush=True)

    def _say(self, ready: bool) -> None:
        self._ready = ready
        self._changed.set()

    async def _keep_reporting(self) -> None:
        """Tell the service the port, the certificate, and whether the program answers."""
        while True:
            self._changed.clear()
            told = {"port": self.port, "certificate": self._certificate, "ready": self._ready}
            pause = _AGAIN
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._report, told)
            except Exception as error:  # whatever it is, serving goes on
                pause = _RETRY
                print(f"The portal was not told: {error}", file=sys.stderr, flush=True)
            await _wait_for(self._changed, pause)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, at most so long. asyncio.wait_for may lose a cancellation (CPython issue
    86296)."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
