"""Kernel of this job and its connection to the relay.

The one connection goes out from here, so the node opens no port. The kernel outlives connections
and relays: what it says meanwhile is kept and sent later.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import secrets
import signal
import time
from typing import Any, Callable

from .. import record as records
from ..record import BadRecord, Record
from ..wire.keys import context, server_name
from ..wire.link import READ_AHEAD, BadFrame, Link, Message
from .kernel_process import KernelProcess
from .past import Past
from .running_kernel import RunningKernel

# Seconds between two tries to connect. A kernel that is restarted waits for its new relay, which
# listens after most of a second.
_PAUSES = (*[0.1] * 10, 0.2, 0.5, 1.0, 2.0)
_GREETING = 10.0  # seconds that the relay may take for it
_LAST = 2.0  # seconds for the last messages
_REPORTS = 3.0  # seconds until the use of the GPUs is reported


class ConnectedKernel:
    """Kernel of ``record``, whose ``process`` was just started. ``patience``: seconds without the
    session, after which the job ends."""

    def __init__(self, record: Record, process: KernelProcess, patience: float) -> None:
        self._id, self._life, self._patience = record.id, record.life, patience
        self._secret = secrets.token_hex(32)
        self._link = Link(self._receive)
        self._kernel = RunningKernel(process, record.key, self._link, self._show_end)
        self._over = asyncio.Event()
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Future[Any]] = set()

    async def run(self) -> None:
        """Run until the kernel is shut down or the session stays away."""
        loop = asyncio.get_running_loop()

        def end(*_: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._over.set)

        # Not a handler of the loop, which ends with it: a later signal would make the job fail.
        signal.signal(signal.SIGTERM, end)
        self._do(self._begin())
        self._do(self._report(self._kernel.activity.report))
        connecting = asyncio.ensure_future(self._stay_connected())
        done = asyncio.ensure_future(self._over.wait())
        await asyncio.wait({connecting, done}, return_when=asyncio.FIRST_COMPLETED)
        await self._link.flushed(_LAST if self._link.connected else 0.0)
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        await self._kernel.end()

    async def _begin(self) -> None:
        """Start the kernel, or start it anew, and tell the relay when it answers."""
        async with self._changing:
            await self._kernel.start()
            self._tell(ready=True, info=self._kernel.info)

    async def _report(self, activity: Callable[[], dict[str, Any]]) -> None:
        """Report the use of the job's GPUs. The modules for that load when the first cell, which
        waited for the kernel, has passed."""
        await asyncio.sleep(_REPORTS)
        reporter = await asyncio.to_thread(_reporter)
        if reporter is not None:
            reporter.activity = activity
            reporter.start()

    # -- the connection ---------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        """Connect repeatedly, until the session was away for too long."""
        away, tries, last_problem = time.monotonic(), 0, ""
        while time.monotonic() - away < self._patience:
            try:
                if not await self._connect():
                    print("Another job runs this kernel: this job ends.", flush=True)
                    return
                away, tries, problem = time.monotonic(), 0, "the connection ended"
            except (
                OSError,
                EOFError,
                ValueError,
                KeyError,
                TypeError,
                BadRecord,
                BadFrame,
                asyncio.TimeoutError,
            ) as error:
                problem = str(error) or type(error).__name__
            if problem != last_problem:
                print(f"Not connected to the session: {problem}.", flush=True)
                last_problem = problem
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1
        print(f"No connection to the session for {self._patience:.0f} s: the job ends.", flush=True)

    async def _connect(self) -> bool:
        """Carry messages over one connection; return False if it was refused."""
        record = await asyncio.to_thread(records.read, self._id)
        tls = context(record.certificate, record.private_key, server=False)
        opening = asyncio.open_connection(
            record.host,
            record.port,
            ssl=tls,
            server_hostname=server_name(record.private_key),
            limit=READ_AHEAD,
        )
        reader, writer = await asyncio.wait_for(opening, _GREETING)
        greeting = {
            "starter": self._secret,
            "life": self._life,
            "received": self._link.received,
            "first": self._link.first,
        }
        writer.write(json.dumps(greeting).encode() + b"\n")
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\n"), _GREETING)
            answer = json.loads(line)
            if "refused" in answer:
                return False
            life, theirs = int(answer["life"]), int(answer["received"])
        except BaseException:
            writer.transport.abort()
            raise
        if life != self._life:
            self._life, theirs = life, 0
            self._link.restart()
            self._kernel.forget()
            self._do(self._begin())
        elif answer.get("fresh"):
            self._link.forget_received()
            self._tell_past(self._kernel.past)
            if self._kernel.ready:
                self._tell(ready=True, info=self._kernel.info)
        try:
            await self._link.carry(reader, writer, theirs)
        finally:
            self._kernel.past.lost()
        return True

    def _tell_past(self, past: Past) -> None:
        """Send a new relay the kernel's past executions: after the messages that the former relay
        did not acknowledge, which are part of them, and before any new message of the kernel."""
        for state in past.states():
            self._tell(past=state)
        self._tell(past_end=True)

    def _receive(self, message: Message) -> None:
        if message[:1] != b"{":
            self._kernel.deliver(message)
            return
        words = json.loads(bytes(message))
        if words.get("end"):
            self._over.set()
        elif words.get("interrupt"):
            self._do(self._kernel.interrupt())

    def _show_end(self, sentence: str, over: bool) -> None:
        """Tell the relay that the kernel's process ended, and start another, unless ``over``."""
        self._kernel.past.died(sentence)
        self._tell(died=sentence)
        if over:
            self._over.set()
        else:
            self._do(self._begin())

    def _tell(self, **words: Any) -> None:
        self._link.send(json.dumps(words).encode())

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        print(f"The kernel could not be started: {error}", flush=True)
        if not _container_gone(error):
            self._tell(died=f"The kernel could not be started: {error}")
        self._over.set()


async def keep_connected(record: Record, process: KernelProcess, patience: float) -> None:
    """Keep the kernel connected until its end; see `ConnectedKernel`."""
    await ConnectedKernel(record, process, patience).run()


def _container_gone(error: BaseException) -> bool:
    """Return True if the file system of the container has ended, as when its node fails: the relay
    then says why the job ended, which Slurm knows and this process does not."""
    return isinstance(error, OSError) and error.errno == errno.ENOTCONN and bool(error.filename)


def _reporter() -> Any:
    from ...measurements.telemetry import make_reporter

    return make_reporter(os.environ, logging.getLogger("portal"))
