"""Kernel of a job: its sockets, and what passes between them and the link."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections import OrderedDict
from typing import Any, Callable

import zmq
import zmq.asyncio

from ...measurements.memory import job_memory
from ...measurements.processes import Processes
from ..wire.backpressure import KEEP_ALL
from ..wire.link import FULL, Link, Message, pack, unpack
from ..wire.messages import Signed, parent_of
from ..wire.sockets import ASKED, IOPUB, SHELL, address
from .kernel_activity import KernelActivity
from .kernel_process import KernelProcess
from .past import Past

_EVERY = 0.5  # seconds between two looks at the process
_STARTS = 180.0  # seconds that a kernel may take until it answers
_LOOK = 200  # milliseconds between two looks while it starts
_BINDS = 10  # milliseconds between two tries to connect until it binds its sockets; ZeroMQ: 100
_ANSWERS = 10_000  # milliseconds that a kernel may take to be told how to print
_QUEUE = 1000  # messages that wait here, as ZeroMQ has it, while those in the kernel wait too
_SOON = 60.0  # a kernel that dies again within this time
_TIMES = 3  # so often is not started again
_CLIENTS = 300  # whose sockets stay open; the one unused for longest is closed first
# What is left out while nobody is connected and much is kept already.
_SPARED = (b"stream", b"display_data", b"update_display_data")


class RunningKernel:
    """Kernel of ``process``, whose messages are signed with ``key``. ``process_ended`` is called
    with a sentence when its process ends by itself, and True if it is not to be started again."""

    def __init__(
        self,
        process: KernelProcess,
        key: str,
        link: Link,
        process_ended: Callable[[str, bool], None],
    ) -> None:
        self._process, self._signed, self._link = process, Signed(key), link
        self._process_ended = process_ended
        self._clients: Clients | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._early: list[Message] = []  # came before the kernel was ready
        self._deaths: list[float] = []
        self.ready = False
        self.info: dict[str, Any] | None = None  # content of its kernel_info_reply
        names = ("SLURM_JOB_ID", "PORTAL_SERVICE_URL")
        self.activity = KernelActivity(Processes(*(os.environ.get(name, "") for name in names)))
        self.past = Past()
        self._missing, self._missing_of = 0, dict[str, Any]()  # messages that were left out

    async def start(self) -> None:
        """Start the kernel, in place of the one before, unless its process was just started; wait
        until it answers. Raises RuntimeError if it does not, and what `KernelProcess` raises."""
        self.ready = False
        if not self._process.fresh:
            await self._stop()
            self._process.start()
        self._process.fresh = False
        info = self._process.info
        iopub = self._early_socket(zmq.SUB)
        iopub.rcvhwm = 0
        iopub.subscribe(b"")
        iopub.connect(address(info, "iopub"))
        await self._answers(info, iopub)
        print(
            f"The kernel answered after {time.monotonic() - self._process.began:.1f} s.", flush=True
        )
        self.activity.forget()
        self.activity.pid = self._process.pid
        self._clients = Clients(info, self._link, self.activity, self.past)
        self._tasks = [
            asyncio.ensure_future(self._pump(iopub)),
            asyncio.ensure_future(self._watch()),
        ]
        self.ready = True
        early, self._early = self._early, []
        for message in early:
            self.deliver(message)

    async def _answers(self, info: dict[str, Any], iopub: Any) -> None:
        """Wait until the kernel answers and its broadcast is heard: what it says before a
        subscription is there is lost. jupyter_client's own wait takes a second longer, for the
        heartbeat. Raises RuntimeError."""
        signed, deadline = self._signed, time.monotonic() + _STARTS
        shell = self._early_socket(zmq.DEALER)
        shell.linger = 0
        shell.connect(address(info, "shell"))
        try:
            await shell.send_multipart(signed.question("kernel_info_request"))
            while True:
                if await shell.poll(_LOOK):
                    reply = signed.request(await shell.recv_multipart())
                    self.info = reply.content if reply is not None else None
                    if await iopub.poll(_LOOK):
                        await self._keep_all(shell, iopub)
                        return
                    await shell.send_multipart(signed.question("kernel_info_request"))
                if self._process.poll() is not None:
                    raise RuntimeError("its process ended; see the job's log")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"it did not answer within {_STARTS:.0f} s")
        finally:
            shell.close()

    async def _keep_all(self, shell: Any, iopub: Any) -> None:
        """Have a Python kernel wait for its reader, which need not take everything then."""
        about = (self.info or {}).get("language_info")
        if not isinstance(about, dict) or about.get("name") != "python":
            return
        request = {"code": KEEP_ALL, "silent": True, "store_history": False, "allow_stdin": False}
        await shell.send_multipart(self._signed.question("execute_request", **request))
        while await shell.poll(_ANSWERS):
            reply = self._signed.request(await shell.recv_multipart())
            if reply is not None and reply.type == "execute_reply":
                if reply.content.get("status") == "ok":
                    iopub.rcvhwm = _QUEUE
                return

    @staticmethod
    def _early_socket(kind: int) -> Any:
        """Return a socket that connects as soon as the kernel, which starts, has bound its own."""
        socket = zmq.asyncio.Context.instance().socket(kind)
        socket.reconnect_ivl = _BINDS
        return socket

    def forget(self) -> None:
        """Drop what clients sent to the kernel before: it is to be started anew."""
        self.ready = False
        self._early.clear()
        self.past.forget()

    def deliver(self, message: Message) -> None:
        """Pass a client's message on to the kernel, once it is ready. Raises BadFrame."""
        if not self.ready or self._clients is None:
            self._early.append(message)
            return
        channel, frames = bytes(message[:1]), unpack(message, 1)
        if channel in ASKED and len(frames) > 1:
            self._clients.send(channel, frames[0], frames[1:])

    async def interrupt(self) -> None:
        """Interrupt what the kernel runs: by a signal, or as its kernelspec wants it."""
        if not self.ready:
            return
        if not self._process.interrupted_by_message:
            self._process.interrupt()
            return
        control = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        control.linger = 1000  # ms, in which the message leaves
        control.connect(address(self._process.info, "control"))
        await control.send_multipart(self._signed.question("interrupt_request"))
        control.close()

    async def end(self) -> None:
        """End the kernel."""
        await self._stop()

    async def _stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self._clients is not None:
            self._clients.close()
            self._clients = None
        await asyncio.to_thread(self._process.kill)

    async def _pump(self, iopub: Any) -> None:
        """Send the kernel's broadcast to the relay."""
        try:
            while True:
                frames = await iopub.recv_multipart()
                if self._link.waiting > FULL and self._link.connected:
                    await self._link.room()
                self.past.take(frames)  # just before it is sent, so that it is in one or the other
                spared = any(kind in frames[0] for kind in _SPARED)
                if self._link.waiting > FULL and not self._link.connected and spared:
                    self._missing, self._missing_of = self._missing + 1, parent_of(frames)
                    continue
                if self._missing:
                    self._link.send(pack(self._note(), IOPUB))
                self._link.send(pack(frames, IOPUB))
        finally:
            iopub.close(0)

    def _note(self) -> list[bytes]:
        """Return the message that says how many others were left out."""
        text = (
            f"\n{self._missing:,} pieces of output are missing here: the session was away, and "
            f"{FULL >> 20} MB waited for it.\n"
        )
        self._missing = 0
        content = {"name": "stderr", "text": text}
        return self._signed.broadcast("stream", content, self._missing_of)

    async def _watch(self) -> None:
        """Look after the kernel's process."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(_EVERY)
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < _SOON] + [now]
        over = len(self._deaths) >= _TIMES
        self.ready = False
        await asyncio.sleep(0.1)  # the last it said is on its way
        self._process_ended(cause_of_end(code) + (" It is not restarted." if over else ""), over)


class Clients:
    """Sockets to the kernel, one for each client and channel: replies go to whom they belong."""

    def __init__(
        self, info: dict[str, Any], link: Link, activity: KernelActivity, past: Past
    ) -> None:
        self._info, self._link, self._activity, self._past = info, link, activity, past
        self._open: OrderedDict[bytes, dict[bytes, Any]] = OrderedDict()
        self._tasks: dict[bytes, list[asyncio.Task[None]]] = {}

    def send(self, channel: bytes, identity: bytes, frames: list[bytes]) -> None:
        """Send a client's message to the kernel."""
        if identity not in self._open:
            self._connect(identity)
        self._open.move_to_end(identity)
        if channel == SHELL:
            self._activity.asked(frames)
            self._past.asked(frames)
        future = self._open[identity][channel].send_multipart(frames)
        if not future.done():
            future.add_done_callback(lambda sent: sent.cancelled() or sent.exception())

    def _connect(self, identity: bytes) -> None:
        while len(self._open) >= _CLIENTS:
            self._forget(next(iter(self._open)))
        context = zmq.asyncio.Context.instance()
        sockets = {}
        for channel, name in ASKED.items():
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            # The kernel asks for input where the request came from, so both have one identity.
            # Names that begin with a zero byte are ZeroMQ's own (zmq_setsockopt(3)).
            socket.identity = identity if identity[:1] != b"\0" else b"r" + identity
            socket.connect(address(self._info, name))
            sockets[channel] = socket
        self._open[identity] = sockets
        self._tasks[identity] = [
            asyncio.ensure_future(self._replies(channel, identity, socket))
            for channel, socket in sockets.items()
        ]

    async def _replies(self, channel: bytes, identity: bytes, socket: Any) -> None:
        while True:
            frames = await socket.recv_multipart()
            if channel == SHELL:
                self._activity.answered(frames)
            self._link.send(pack([identity, *frames], channel))

    def _forget(self, identity: bytes) -> None:
        for task in self._tasks.pop(identity):
            task.cancel()
        for socket in self._open.pop(identity).values():
            socket.close(0)

    def close(self) -> None:
        """Close all sockets."""
        for identity in list(self._open):
            self._forget(identity)


def cause_of_end(code: int | None) -> str:
    """Return a sentence that says why the kernel's process ended. ``code``: of subprocess."""
    if code == -signal.SIGKILL:
        _, limit = job_memory(os.environ.get("SLURM_JOB_ID", ""))
        words = f" The job has {limit / 1024:.1f} GiB of memory." if limit else ""
        return f"The kernel was killed, probably because the job ran out of memory.{words}"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"The kernel was terminated by signal {signal.Signals(-code).name}."
    return f"The kernel exited{'' if code is None else f' with code {code}'}."
