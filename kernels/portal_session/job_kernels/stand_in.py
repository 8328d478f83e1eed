"""Stand-in for a kernel that runs in another job: to Jupyter, it is the kernel.

While the job waits, requests are kept and sent in order when the kernel is there; what pages ask
beside running cells is answered at once, so that no page takes a kernel that waits for a broken
one. When the job has ended, each cell that is run says why.
"""

from __future__ import annotations

import asyncio
import enum
from typing import Any, Callable

from ..notebooks.kernel_follower import PAST, PAST_END
from .wire import messages
from .wire.link import Link, Message, pack, unpack
from .wire.messages import Request, Signed
from .wire.sockets import IOPUB, SHELL, KernelSockets


class State(enum.Enum):
    """State of the kernel behind the stand-in."""

    WAITS = "waits"
    RUNS = "runs"
    OVER = "over"


class StandIn:
    """Requests and replies of one kernel.

    ``signed``: with the key that the clients know; ``theirs``: with that of the kernel.
    ``interrupt``, ``shut_down`` (with True for a restart): called when a client asks for that.
    """

    def __init__(
        self,
        sockets: KernelSockets,
        signed: Signed,
        theirs: Signed,
        link: Link,
        language: str,
        *,
        interrupt: Callable[[], None],
        shut_down: Callable[[bool], None],
    ) -> None:
        self._sockets, self._link = sockets, link
        self._signed, self._theirs = signed, theirs
        self._info = messages.kernel_info(language)
        self._interrupt, self._shut_down = interrupt, shut_down
        self.state = State.WAITS
        self._why = ""  # sentence that says why it is over
        self._queue: list[tuple[bytes, Request]] = []  # kept while it waits
        self._open: dict[str, Request] = {}  # executions sent and not yet answered, by message id
        self._past: set[str] = set()  # those of them that a former server's pages asked for

    async def serve(self) -> None:
        """Serve the clients until cancelled."""
        await asyncio.gather(
            self._sockets.beat(),
            self._sockets.read_subscriptions(),
            *(self._take(channel) for channel in self._sockets.asked),
        )

    # -- from the clients -----------------------------------------------------------------

    async def _take(self, channel: bytes) -> None:
        socket = self._sockets.asked[channel]
        while True:
            frames = await socket.recv_multipart()
            request = self._signed.request(frames)
            if request is None:
                continue  # not signed with the kernel's key
            await self._asked(channel, request)
            if self.state is State.RUNS:
                await self._link.room()

    async def _asked(self, channel: bytes, request: Request) -> None:
        if request.type == "shutdown_request":
            restart = bool(request.content.get("restart"))
            await self._answer(channel, request, {"status": "ok", "restart": restart})
            self._shut_down(restart)
        elif request.type == "interrupt_request":
            self._interrupt()
            await self._answer(channel, request, {"status": "ok"})
        elif self.state is State.RUNS and not self._hides_info(request):
            self._forward(channel, request)
        elif request.type == "kernel_info_request":
            await self._busy_with(channel, request, self._info)
        elif (content := messages.knows_nothing(request)) is not None:
            await self._busy_with(channel, request, content)
        elif self.state is State.OVER:
            await self._fail(channel, request, "KernelEnded", self._why)
        else:
            self._queue.append((channel, request))

    def _hides_info(self, request: Request) -> bool:
        """Return True for a request without whose reply no page is connected, and which a kernel
        answers only after its running cell. jupyter_server sends it once, before any other cell."""
        return request.type == "kernel_info_request" and bool(self._past & self._open.keys())

    def _forward(self, channel: bytes, request: Request) -> None:
        if request.type == "execute_request":
            self._open[request.id] = request
        self._link.send(pack(self._theirs.sign(request.frames, self._signed), channel))

    async def _busy_with(self, channel: bytes, request: Request, content: dict[str, Any]) -> None:
        await self.publish("status", {"execution_state": "busy"}, request.header)
        await self._answer(channel, request, content)
        await self.publish("status", {"execution_state": self._resting()}, request.header)

    def _resting(self) -> str:
        """Return the status of a kernel that computes nothing: busy while cells wait in it."""
        return "busy" if self._queue or self._past & self._open.keys() else "idle"

    async def _answer(self, channel: bytes, request: Request, content: dict[str, Any]) -> None:
        await self._sockets.asked[channel].send_multipart(self._signed.reply(request, content))

    async def _fail(self, channel: bytes, request: Request, name: str, sentence: str) -> None:
        await self._sockets.any_subscribed()
        content = messages.failure(name, sentence)
        if request.type == "execute_request":
            await self.publish("status", {"execution_state": "busy"}, request.header)
            error = {key: content[key] for key in ("ename", "evalue", "traceback")}
            await self.publish("error", error, request.header)
        await self._answer(channel, request, {**content, "execution_count": 0})
        await self.publish("status", {"execution_state": "idle"}, request.header)

    async def publish(
        self, kind: str, content: dict[str, Any], parent: dict[str, Any] | None = None
    ) -> None:
        """Send a message to all clients, as the kernel would."""
        await self._sockets.iopub.send_multipart(self._signed.broadcast(kind, content, parent))

    # -- from the kernel ------------------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """Pass a message of the kernel on to its clients. Raises BadFrame."""
        channel, frames = bytes(message[:1]), unpack(message, 1)
        if messages.DELIMITER not in frames or messages.says_starting(frames):
            return
        if channel == SHELL and self._open:
            self._close(frames)
        socket = self._sockets.iopub if channel == IOPUB else self._sockets.asked.get(channel)
        if socket is not None:
            self._send(socket, self._signed.sign(frames, self._theirs))

    @staticmethod
    def _send(socket: Any, frames: list[bytes]) -> None:
        future = socket.send_multipart(frames)
        if not future.done():  # kept by the socket until it is sent
            future.add_done_callback(lambda sent: sent.cancelled() or sent.exception())

    def _close(self, frames: list[bytes]) -> None:
        """Note that a request is answered."""
        reply = self._theirs.request(frames)
        if reply is not None and reply.type == "execute_reply":
            self._open.pop(str(reply.parent.get("msg_id", "")), None)

    def past(self, state: dict[str, Any]) -> None:
        """Pass an execution of the kernel's past on to the session's server. A running one ends
        with the kernel, like those that are requested here."""
        self._tell(PAST, state)
        id, client = str(state.get("id", "")), str(state.get("client", ""))
        if state.get("ended") is None:
            header = {"msg_id": id, "msg_type": "execute_request", "session": client}
            # A page has the same identity in each of its connections (jupyter_server's channels).
            self._past.add(id)
            self._open[id] = Request([], [client.encode()], header, {}, {})

    def past_end(self) -> None:
        """Say that the past is complete."""
        self._tell(PAST_END, {})

    def _tell(self, kind: str, content: dict[str, Any]) -> None:
        """Send a message to all clients, in order with those of the kernel."""
        self._send(self._sockets.iopub, self._signed.broadcast(kind, content))

    # -- what becomes of the kernel ---------------------------------------------------------

    async def runs(self, info: dict[str, Any] | None = None) -> None:
        """Send the kept messages: the kernel is connected. ``info``: the content of its
        kernel_info_reply."""
        self._info = info or self._info
        self.state = State.RUNS
        running = next(iter(self._open.values()), None)
        queued, self._queue = self._queue, []
        for channel, request in queued:
            self._forward(channel, request)
        if running is not None:  # it was asked for by a page of a former server
            await self.publish("status", {"execution_state": "busy"}, running.header)
        elif not queued:
            await self.publish("status", {"execution_state": "idle"})

    async def forget(self, name: str, sentence: str) -> None:
        """Fail what waits or runs: its kernel is gone, or its owner wants it no longer."""
        queued, self._queue = self._queue, []
        running, self._open = list(self._open.values()), {}
        for request in running:
            await self._fail(SHELL, request, name, sentence)
        for channel, request in queued:
            await self._fail(channel, request, name, sentence)
        await self.publish("status", {"execution_state": "idle"})

    async def over(self, sentence: str) -> None:
        """Say that the job has ended, in the cells that wait or run, and in those to come."""
        self.state, self._why = State.OVER, sentence
        await self.forget("KernelEnded", sentence)

    async def died(self, sentence: str) -> None:
        """Say that the kernel's process ended; the job starts another one."""
        await self.publish("status", {"execution_state": "restarting"})
        await self.forget("KernelDied", sentence)
