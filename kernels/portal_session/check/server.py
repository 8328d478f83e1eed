"""Session's server under test: started as a job starts it, requested as a page requests it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from ..kernels.sockets import PORTS_ONLY
from .hub import PREFIX, CheckHub

_REQUEST = 60.0  # seconds
_QUIET_END = 10.0
_ON_SOCKETS = ("python", "r", "bash")  # languages whose usual kernels listen on Unix sockets


class Failed(Exception):
    """Failed test, in a sentence."""


class Server:
    """Session's server. Every method raises Failed on errors."""

    def __init__(self, hub: CheckHub) -> None:
        self._hub = hub
        self._process: subprocess.Popen[bytes] | None = None
        self._base = ""

    async def start(self, patience: float) -> float:
        """Start the server; return the seconds until its API answered."""
        began = time.monotonic()
        self._start()
        while not self._hub.port.done():
            self._see_that_it_runs()
            if time.monotonic() > began + patience:
                raise Failed(f"The notebook server did not answer within {patience:.0f} s.")
            await asyncio.wait([self._hub.port], timeout=0.1)
        self._base = f"127.0.0.1:{self._hub.port.result()}{PREFIX}"
        await self.ask("GET", "api/status")
        return time.monotonic() - began

    def _start(self) -> None:
        argv = [sys.executable, "-I", "-m", "portal_session"]
        if os.geteuid() == 0:
            argv.append("--allow-root")
        self._process = subprocess.Popen(
            argv,
            env={**os.environ, **self._hub.environment()},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
        )

    def _see_that_it_runs(self) -> None:
        status = self._process.poll() if self._process else None
        if status is not None:
            raise Failed(f"The notebook server exited immediately with code {status}.")

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the server's API; return the decoded JSON."""
        request = HTTPRequest(
            f"http://{self._base}{path}",
            method=method,
            headers={"Authorization": f"token {self._hub.token}"},
            body=json.dumps(body or {}) if method == "POST" else None,
            request_timeout=_REQUEST,
        )
        try:
            response = await AsyncHTTPClient().fetch(request, raise_error=False)
        except Exception as error:
            raise Failed(f"The notebook server does not answer: {error}.") from None
        if response.code >= 400:
            body_text = response.body.decode("utf-8", "replace")[:300]
            raise Failed(
                f"The notebook server answered {response.code} to {method} {path}: {body_text}"
            )
        return json.loads(response.body or b"null")

    async def connect(self, path: str) -> WebSocketClientConnection:
        request = HTTPRequest(
            f"ws://{self._base}{path}",
            headers={"Authorization": f"token {self._hub.token}"},
            connect_timeout=_REQUEST,
            request_timeout=_REQUEST,
        )
        try:
            return await websocket_connect(request, max_message_size=64 * 1024 * 1024)
        except Exception as error:
            raise Failed(f"The notebook server rejects connections to {path}: {error}.") from None

    def stop(self) -> None:
        """End the server and its kernels."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_QUIET_END)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Kernel:
    """Kernel of the server, between ``start`` and ``stop``. ``spec``: its kernelspec, {} if there
    is none."""

    def __init__(self, server: Server, name: str, spec: Mapping[str, Any]) -> None:
        self._server = server
        self._name = name
        self._spec = spec
        self._answered = False
        self._id = ""
        self._socket: WebSocketClientConnection | None = None
        self._session = uuid.uuid4().hex
        self.version = ""

    async def start(self) -> None:
        """Start the kernel and wait for its ``version``, that of its language."""
        kernel = await self._server.ask("POST", "api/kernels", {"name": self._name})
        self._id = kernel["id"]
        self._socket = await self._server.connect(
            f"api/kernels/{self._id}/channels?session_id={self._session}"
        )
        request_id = self._send("kernel_info_request", {})
        while True:
            message = await self._next()
            if message["header"]["msg_type"] == "status":
                self._see_that_it_lives(message)
            elif message["parent_header"].get("msg_id") == request_id:
                if message["header"]["msg_type"] == "kernel_info_reply":
                    self._answered = True
                    info = message["content"].get("language_info", {})
                    self.version = str(info.get("version", ""))
                    return

    async def run(self, code: str) -> str:
        """Return what ``code`` printed or showed as text. Raises Failed with the error's own
        message."""
        request_id = self._send(
            "execute_request",
            {"code": code, "silent": False, "store_history": False, "allow_stdin": False},
        )
        output: list[str] = []
        replied = idle = False
        while not (replied and idle):
            message = await self._next()
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "status":
                self._see_that_it_lives(message)
            if message["parent_header"].get("msg_id") != request_id:
                continue
            if kind == "stream":
                output.append(content["text"])
            elif kind in ("execute_result", "display_data"):
                output.append(str(content["data"].get("text/plain", "")))
            elif kind == "error":
                raise Failed(f"{content.get('ename', '')}: {content.get('evalue', '')}"[:500])
            elif kind == "execute_reply":
                replied = True
                if content.get("status") != "ok":
                    name, value = content.get("ename", "an error"), content.get("evalue", "")
                    raise Failed(f"{name}: {value}"[:500])
            elif kind == "status" and content["execution_state"] == "idle":
                idle = True
        return "".join(output)

    def reason(self, error: Failed) -> str:
        """Return why it failed: ``error``, and the likely cause if it has never answered."""
        language = str(self._spec.get("language", "")).lower()
        ports_only = self._spec.get("metadata", {}).get(PORTS_ONLY)
        if self._answered or not self._spec or language in _ON_SOCKETS or ports_only:
            return str(error)
        return (
            f"{error} Kernels listen on Unix sockets here, not on ports. If this one cannot, add "
            f'"metadata": {{"{PORTS_ONLY}": true}} to its kernel.json: then all users of its node '
            "can read what it prints."
        )

    async def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._id:
            with contextlib.suppress(Failed):
                await self._server.ask("DELETE", f"api/kernels/{self._id}")

    def _see_that_it_lives(self, message: dict[str, Any]) -> None:
        if message["content"].get("execution_state") in ("dead", "restarting", "autorestarting"):
            raise Failed("The kernel died.")

    def _send(self, kind: str, content: dict[str, Any]) -> str:
        assert self._socket is not None
        id_ = uuid.uuid4().hex
        header = {
            "msg_id": id_,
            "msg_type": kind,
            "session": self._session,
            "username": "",
            "version": "5.3",
        }
        message = {
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "channel": "shell",
            "buffers": [],
        }
        self._socket.write_message(json.dumps(message))
        return id_

    async def _next(self) -> dict[str, Any]:
        assert self._socket is not None
        while True:
            text = await self._socket.read_message()
            if text is None:
                raise Failed("The notebook server closed the connection to the kernel.")
            if isinstance(text, str):
                return dict(json.loads(text))
