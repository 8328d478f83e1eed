"""Kernel of a notebook, used over the session's websocket as a page would."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any, NamedTuple

from hub_client import Person
from machine import patience


class Ran(NamedTuple):
    """Result of a cell: its reply's status, what it printed, its error's sentence, and the texts
    that it displayed."""

    status: str
    printed: str
    error: str
    shown: list[str]


class NotebookKernel:
    """Kernel of a person's session. ``server``: its name; "" is the default one."""

    def __init__(self, person: Person, id: str, server: str = "") -> None:
        self.person, self.id, self.server = person, id, server
        self._loop = asyncio.new_event_loop()
        self._socket: Any = None
        self._others: list[dict[str, Any]] = []  # messages of cells that nobody waits for yet

    @classmethod
    def start(
        cls, person: Person, name: str = "", path: str = "", server: str = ""
    ) -> NotebookKernel:
        """Start the kernel of a kernelspec ("": the default one); with ``path``, a notebook's."""
        if path:
            body: dict[str, Any] = {"path": path, "name": path, "type": "notebook"}
            answer = person.session(
                "POST", "api/sessions", server, json={**body, "kernel": {"name": name}}
            )
        else:
            wanted = {"name": name} if name else {}
            answer = person.session("POST", "api/kernels", server, json=wanted)
        assert answer.status_code == 201, answer.text
        found = answer.json()
        return cls(person, found["kernel"]["id"] if path else found["id"], server)

    def ask(self, action: str) -> None:
        """``interrupt`` or ``restart`` it."""
        answer = self.person.session("POST", f"api/kernels/{self.id}/{action}", self.server)
        assert answer.status_code in (200, 204), answer.text

    def install(self, package: str) -> None:
        """Install a package that its Python lacks, and restart it: a Python does not look for a
        folder of packages that was made after its start."""
        if self.run(f"import {package}").status != "ok":
            assert self.run(f"%pip install -q {package}", 300).status == "ok"
            self.ask("restart")
            assert self.run(f"import {package}").status == "ok"

    def shut_down(self) -> None:
        """Shut it down, as a page does."""
        answer = self.person.session("DELETE", f"api/kernels/{self.id}", self.server)
        assert answer.status_code == 204, answer.text

    def send(self, code: str, cell: str = "") -> str:
        """Run a cell, and do not wait for it; return the message's id. ``cell``: its id in the
        notebook, which JupyterLab names."""
        return self._loop.run_until_complete(self._send(code, cell))

    def wait(self, id: str, seconds: float = 120) -> Ran:
        """Wait until a cell has ended."""
        return self._loop.run_until_complete(asyncio.wait_for(self._wait(id), patience(seconds)))

    def until_printed(self, id: str, text: str, seconds: float = 60) -> None:
        """Wait until a cell has printed ``text``; ``wait`` has all of its output nevertheless."""
        printing = self._until_printed(id, text)
        self._loop.run_until_complete(asyncio.wait_for(printing, patience(seconds)))

    def run(self, code: str, seconds: float = 120) -> Ran:
        """Run a cell and wait until it has ended."""
        return self.wait(self.send(code), seconds)

    def leave(self) -> None:
        """Close the connection, as a page that is closed."""
        socket, self._socket = self._socket, None
        if socket is not None:
            self._loop.run_until_complete(_closed(socket))

    async def _connected(self) -> Any:
        if self._socket is None:
            path = f"api/kernels/{self.id}/channels"
            self._socket = await self.person.socket(path, self.server)
        return self._socket

    async def _send(self, code: str, cell: str) -> str:
        socket, id = await self._connected(), uuid.uuid4().hex
        header = {"msg_id": id, "msg_type": "execute_request", "session": "s", "username": ""}
        header |= {"version": "5.3", "date": "2026-01-01T00:00:00Z"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        metadata = {"cellId": cell} if cell else {}
        message = {"header": header, "parent_header": {}, "metadata": metadata, "content": content}
        await socket.write_message(json.dumps({**message, "buffers": [], "channel": "shell"}))
        return id

    async def _wait(self, id: str) -> Ran:
        printed, error, status = "", "", ""
        idle, shown = False, list[str]()
        while not (idle and status):
            message = await self._next(id)
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
            elif kind == "error":
                error = content["evalue"]
            elif "data" in content and "text/plain" in content["data"]:
                shown.append(content["data"]["text/plain"])
            elif kind == "execute_reply":
                status = content["status"]
            elif kind == "status":
                idle = content["execution_state"] == "idle"
        return Ran(status, printed, error, shown)

    async def _until_printed(self, id: str, text: str) -> None:
        printed, messages = "", list[dict[str, Any]]()
        while text not in printed:
            messages.append(await self._next(id))
            printed += messages[-1]["content"].get("text", "")
        self._others[:0] = messages

    async def _next(self, id: str) -> dict[str, Any]:
        """Return the next message of a cell; the reply of one may come after output of the next."""
        for place, message in enumerate(self._others):
            if message["parent_header"].get("msg_id") == id:
                return self._others.pop(place)
        socket = await self._connected()
        while True:
            raw = await socket.read_message()
            assert raw is not None, "the connection is closed"
            message = json.loads(raw)
            if message["parent_header"].get("msg_id") == id:
                return dict(message)
            self._others.append(message)


async def _closed(socket: Any) -> None:
    """Close a websocket, which tornado does in an event loop only."""
    socket.close()
