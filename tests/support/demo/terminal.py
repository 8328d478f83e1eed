"""Commands in a session's terminals, for tests."""

from __future__ import annotations

import asyncio
import json
import threading
import time

from hub_client import Person, wait_until
from machine_clock import awake
from tornado.websocket import WebSocketClientConnection


def terminal(person: Person, command: str, server: str = "", *, wait: bool = True) -> str:
    """Run a command in a terminal of the session; return its output, read from a file in the home.

    Without ``wait`` the command is only started, and "" is returned.
    """
    name = f"out-{time.time_ns()}.txt"
    response = person.session("POST", "api/terminals", server)
    assert response.status_code == 200, response.text

    async def send() -> None:
        socket = await person.socket(f"terminals/websocket/{response.json()['name']}", server)
        line = f"cd; ( {command} ) > {name}.part 2>&1; mv {name}.part {name}\r"
        await socket.write_message(json.dumps(["stdin", line]))
        await asyncio.sleep(1)
        socket.close()

    thread = threading.Thread(target=lambda: asyncio.run(send()))
    thread.start()
    thread.join()
    if not wait:
        return ""
    contents = wait_until(
        f"the output of {command!r}",
        lambda: (
            (a := person.session("GET", f"api/contents/{name}", server)).status_code == 200 and a
        ),
    )
    person.session("DELETE", f"api/contents/{name}", server)
    return str(contents.json()["content"])


def session_token(person: Person, server: str = "") -> str:
    """Return the session's own token. Its terminals lack it; the server, their parent, has it."""
    command = r"tr '\0' '\n' </proc/$PPID/environ | sed -n s/^JUPYTERHUB_API_TOKEN=//p"
    token = terminal(person, command, server).strip()
    assert len(token) >= 32
    return token


async def type_in(socket: WebSocketClientConnection, words: str, expect: str) -> None:
    """Write a line into a terminal and read until ``expect`` is in the output."""
    await socket.write_message(json.dumps(["stdin", words + "\r"]))
    text = ""
    while expect not in text:
        said = await asyncio.wait_for(socket.read_message(), 30)
        assert said is not None, "closed"
        kind, *rest = json.loads(said)
        text += "".join(map(str, rest)) if kind == "stdout" else ""


async def until_closed(socket: WebSocketClientConnection) -> float:
    """Wait until the server closes the websocket; return after how many seconds."""
    began = awake()
    while await asyncio.wait_for(socket.read_message(), 120) is not None:
        pass
    return awake() - began
