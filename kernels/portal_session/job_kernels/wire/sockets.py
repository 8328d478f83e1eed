"""Sockets of a kernel, as its connection file names them (jupyter_client, "Connection files")."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio

SHELL, CONTROL, STDIN, IOPUB = b"s", b"c", b"t", b"i"  # first byte of a message of the link
ASKED = {SHELL: "shell", CONTROL: "control", STDIN: "stdin"}


def connection_info(path: Path) -> dict[str, Any]:
    """Return the content of a connection file. Raises OSError, ValueError."""
    info = json.loads(path.read_text())
    if not isinstance(info, dict):
        raise ValueError(f"{path} is not a connection file")
    return info


def address(info: Mapping[str, Any], channel: str) -> str:
    """Return the address of a channel's socket: of TCP, or of a Unix socket."""
    separator = "-" if info.get("transport") == "ipc" else ":"
    return f"{info.get('transport', 'tcp')}://{info['ip']}{separator}{info[f'{channel}_port']}"


_SUBSCRIBES = 1.0  # seconds that clients may take to subscribe, if there are any
_OTHERS = 0.2  # seconds for the others, after the first


class KernelSockets:
    """Sockets that Jupyter's clients connect to, bound here in place of a kernel."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        context = zmq.asyncio.Context.instance()
        self.asked = {
            channel: self._bound(context, zmq.ROUTER, address(info, name))
            for channel, name in ASKED.items()
        }
        # As PUB, but it also says what clients subscribe to (zmq_socket(3)).
        self.iopub = self._bound(context, zmq.XPUB, address(info, "iopub"))
        self._subscribed: dict[bytes, asyncio.Event] = {}  # by topic
        self._has_subscriber = False
        self.heartbeat = self._bound(context, zmq.ROUTER, address(info, "hb"))

    @staticmethod
    def _bound(context: Any, kind: int, where: str) -> Any:
        socket = context.socket(kind)
        socket.linger = 1000  # ms: the last reply still leaves
        if kind == zmq.ROUTER:
            socket.router_handover = 1
        else:
            socket.sndhwm = 0  # a client that is slow must not miss the end of a cell
        socket.bind(where)
        return socket

    async def beat(self) -> None:
        """Answer heartbeats: this process lives."""
        while True:
            await self.heartbeat.send_multipart(await self.heartbeat.recv_multipart())

    async def read_subscriptions(self) -> None:
        """Note what clients subscribe to. A topic comes here when its first client has it."""
        while True:
            message = (await self.iopub.recv_multipart())[0]
            if message[:1] == b"\1":
                self._event(message[1:]).set()
            elif message[:1] == b"\0":
                self._event(message[1:]).clear()

    async def subscribed(self, topic: bytes) -> None:
        """Wait until a client subscribes to exactly this topic."""
        await self._event(topic).wait()

    async def any_subscribed(self) -> None:
        """Wait, once, until clients have had the time to subscribe.

        They do so again when a kernel is restarted. What is broadcast before is lost, and without
        the broadcast of a cell's end a page shows the cell as running for ever.
        """
        if not self._has_subscriber:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.subscribed(b""), _SUBSCRIBES)
            await asyncio.sleep(_OTHERS)
            self._has_subscriber = True

    def _event(self, topic: bytes) -> asyncio.Event:
        return self._subscribed.setdefault(topic, asyncio.Event())

    def close(self) -> None:
        """Close all sockets."""
        for socket in (*self.asked.values(), self.iopub, self.heartbeat):
            socket.close()
