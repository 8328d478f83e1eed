"""Taking the place of a marimo kernel: marimo waits for its kernel's process at a port that asks
nobody for a password, and unpickles what the first to connect sends."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks import python_of
from listening import INTRUDER, as_neighbour, as_owner, listening_sockets, reached
from machine import patience
from portal_session.programs.program import Program
from session_server import make_python, wait_for
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from portal.launch.kinds.program import MARIMO, program_kind

BASE = "/user/ada/portal/program/"
CELL = 'import marimo\napp = marimo.App()\n@app.cell\ndef _():\n    print("secret")\n'
# Connects as another account to each port of a process as soon as there is one, and sends it a
# pickle that makes a file. Only it looks as root, for the ports of this process and no other.
_FIRST = r"""
import os, pathlib, pickle, signal, socket, struct, sys
owner, file, account = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
class Code:
    def __reduce__(self):
        return open, (file, "w")
code = pickle.dumps(Code())
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
seen = set()
print("looks", flush=True)
while True:
    try:
        ends = {os.readlink(end)[8:-1] for end in pathlib.Path(f"/proc/{owner}/fd").iterdir()}
    except OSError:
        continue
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        port = int(fields[1].rpartition(":")[2], 16)
        if fields[3] == "0A" and fields[9] in ends and port not in seen:
            seen.add(port)
            if not os.fork():
                os.setgroups([]), os.setgid(account), os.setuid(account)
                client = socket.create_connection(("127.0.0.1", port))
                client.sendall(struct.pack("!i", len(code)) + code)
                client.recv(1)
                os._exit(0)
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of a session, with marimo."""
    python = make_python(tmp_path_factory.mktemp("marimo") / "venv")
    (own,) = python.parents[1].glob("lib/python3*/site-packages")
    (packages,) = python_of("marimo").parents[1].glob("lib/python3*/site-packages")
    (own / "b_marimo.pth").write_text(f"{packages}\n")
    return python


@pytest.fixture
def marimo(python: Path, tmp_path: Path) -> Iterator[Program]:
    """marimo as a session starts it, in a home of its own."""
    definition = json.loads(program_kind(MARIMO)().variables()["PORTAL_PROGRAM"])
    definition["argv"] = [str(python) if at == "{python}" else at for at in definition["argv"]]
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PORTAL_JOB_ID": "1"}
    program = Program(definition, tmp_path, BASE, str(tmp_path), environ)
    program.start()
    try:
        wait_for(lambda: program.answers, program.output)
        yield program
    finally:
        program.stop()


async def opened(program: Program, notebook: Path) -> dict[str, Any]:
    """Open a notebook, as the session's proxy does; return the message that says how it went."""
    word = base64.b64encode(f"session:{program.secret}".encode()).decode()
    url = f"ws://127.0.0.1:{program.port}{BASE}ws?session_id=s_abcdef&file={notebook}"
    socket = await websocket_connect(HTTPRequest(url, headers={"Authorization": f"Basic {word}"}))
    while True:
        text = await asyncio.wait_for(socket.read_message(), patience(60))
        assert text is not None, program.output()
        message = json.loads(text)
        if message["op"] in ("kernel-ready", "kernel-startup-error"):
            return dict(message)


async def test_a_neighbour_who_connects_first_is_no_kernel(marimo: Program, tmp_path: Path) -> None:
    notebook, file = tmp_path / "n.py", tmp_path / "made-by-a-neighbour"
    notebook.write_text(CELL)
    assert marimo._process is not None
    argv = [sys.executable, "-c", _FIRST, str(marimo._process.pid), str(file), str(INTRUDER)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as neighbour:
        try:
            assert neighbour.stdout is not None and neighbour.stdout.readline() == b"looks\n"
            message = await opened(marimo, notebook)
        finally:
            os.killpg(neighbour.pid, 9)
    assert not file.exists(), "a neighbour's code has run"
    assert message["op"] == "kernel-ready"
    sockets = listening_sockets(as_owner, str(tmp_path))
    assert ("tcp", ["127.0.0.1", marimo.port]) in sockets
    assert reached(as_neighbour, sockets, BASE) == {}


async def test_a_kernel_that_needs_ports_is_refused(
    marimo: Program, python: Path, tmp_path: Path
) -> None:
    notebook = tmp_path / "n.py"
    venv = f'# /// script\n# [tool.marimo.venv]\n# path = "{python.parents[1]}"\n# ///\n'
    notebook.write_text(venv + CELL)
    message = await opened(marimo, notebook)
    sockets = listening_sockets(as_owner, str(tmp_path))
    assert sockets == [("tcp", ["127.0.0.1", marimo.port])]
    assert message["op"] == "kernel-startup-error"
    assert "ports that other users of this node can read" in message["data"]["error"]
