"""Reading along, and taking over, through what a session listens on: loopback is the whole node's.

A neighbour finds every port in /proc/net/tcp and every abstract socket in /proc/net/unix. ZeroMQ
gives a kernel's output to every subscriber, and debugpy runs what it is sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jupyter_client import BlockingKernelClient
from session_server import KERNELS as PACKAGE
from session_server import SessionServer, a_server, make_python, wait_for

INTRUDER = 65534  # "nobody" nearly everywhere; another account than ours
LISTENS = "0A"  # of TCP, in proc(5)
PATIENCE = 60
# Reads a JSON list of addresses, and prints for each what it was told there, as hexadecimal; "" for
# nothing, null for a refusal by the file system.
_NEIGHBOUR = r"""
import json, socket, sys
DAP = {"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}}
body = json.dumps(DAP).encode()
PROBES = [
    b"",
    b"GET /user/ada/api/kernels HTTP/1.0\r\n\r\n",
    b"Content-Length: %d\r\n\r\n" % len(body) + body,
    b"\xff" + b"\0" * 8 + b"\x7f\x03\0NULL" + b"\0" * 48,  # a greeting of ZMTP 3.0 (RFC 23)
]
said = {}
for kind, address in json.load(sys.stdin):
    said[str(address)] = []
    for probe in PROBES:
        family = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6, "unix": socket.AF_UNIX}[kind]
        with socket.socket(family) as client:
            client.settimeout(1.5)
            try:
                client.connect(tuple(address) if kind != "unix" else address)
                client.sendall(probe)
                answer = client.recv(4096)
            except (PermissionError, FileNotFoundError):
                said[str(address)].append(None)
            except (TimeoutError, ConnectionError):
                said[str(address)].append("")
            else:
                said[str(address)].append(answer.hex())
print(json.dumps(said))
"""


class Listening(NamedTuple):
    """A socket on which a process listens; ``address`` is a path, or host and port."""

    kind: str
    address: Any
    pid: int


def listening_sockets(home: Path) -> list[Listening]:
    """All listening sockets of the processes whose home this is, also of those that have left
    their parents."""
    places = _places()
    sockets = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={home}".encode() not in (process / "environ").read_bytes().split(b"\0"):
                continue
            ends = {str(end.readlink()) for end in (process / "fd").iterdir()}
        except OSError:
            continue
        inodes = {end[8:-1] for end in ends if end.startswith("socket:[")}
        sockets += [Listening(*places[i], int(process.name)) for i in inodes & places.keys()]
    return sockets


def _places() -> dict[str, tuple[str, Any]]:
    """Kind and address of each listening socket of this node, by its inode (proc(5))."""
    places: dict[str, tuple[str, Any]] = {}
    for kind, host in (("tcp", "127.0.0.1"), ("tcp6", "::1")):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS:
                port = int(fields[1].rpartition(":")[2], 16)
                places[fields[9]] = (kind, [host, port])
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and int(fields[3], 16) & 0x10000:  # __SO_ACCEPTCON
            name = fields[7]
            places[fields[6]] = ("unix", "\0" + name[1:] if name.startswith("@") else name)
    return places


def as_neighbour(sockets: list[Listening]) -> dict[str, list[str | None]]:
    """What another account is told at these sockets, by address: one answer for each probe."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", _NEIGHBOUR],
        input=json.dumps([(socket.kind, socket.address) for socket in sockets]),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd="/",
        **{"user": INTRUDER, "group": INTRUDER, "extra_groups": []},  # type: ignore[arg-type]
    )
    return dict(json.loads(done.stdout))


def is_refusal(answer: str | None) -> bool:
    """Return True if a neighbour learned nothing: silence, no way in, or a login's refusal."""
    told = bytes.fromhex(answer or "")
    return not told or told.split(b" ")[1:2] in ([b"302"], [b"400"], [b"401"], [b"403"])


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = make_python(tmp_path_factory.mktemp("listening") / "venv")
    bash = python.parents[1] / "share/jupyter/kernels/bash"
    bash.mkdir(parents=True)
    (bash / "kernel.json").write_text((PACKAGE / "config/bash/kernel.json").read_text())
    return python


@pytest.fixture(scope="module")
def server(python: Path) -> Iterator[SessionServer]:
    with a_server(python) as running:
        yield running


def start(server: SessionServer, name: str) -> tuple[str, BlockingKernelClient]:
    """Start a kernel of the session; return its id and a client of its owner."""
    answer = server.client.post("api/kernels", json={"name": name})
    assert answer.status_code == 201, answer.text
    id = answer.json()["id"]
    (file,) = server.home.rglob(f"kernel-{id}.json")
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE)
    return id, client


def printed(client: BlockingKernelClient, code: str) -> str:
    """What a cell prints."""
    text = ""

    def take(message: dict[str, Any]) -> None:
        nonlocal text
        text += message["content"].get("text", "")

    reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=take)
    assert reply["content"]["status"] == "ok", reply["content"]
    return text


def ask_debugger(client: BlockingKernelClient, command: str, arguments: Any) -> dict[str, Any]:
    """Send a request of the debug adapter protocol, as JupyterLab's debugger does."""
    content = {"type": "request", "seq": 1, "command": command, "arguments": arguments}
    message = client.session.msg("debug_request", content)
    client.control_channel.send(message)
    while True:
        reply = client.get_control_msg(timeout=PATIENCE)
        if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
            return dict(reply["content"])


def debug(client: BlockingKernelClient) -> None:
    """Switch the debugger on, with a breakpoint in the first line of a cell."""
    ready = ask_debugger(
        client, "initialize", {"clientID": "t", "adapterID": "", "pathFormat": "path"}
    )
    assert ready["success"], ready
    assert ask_debugger(client, "attach", {})["success"]


KERNELS = ("python3", "bash", "ir")


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_no_port_and_a_folder_of_its_own(server: SessionServer, name: str) -> None:
    id, client = start(server, name)
    try:
        code = {"bash": "echo word", "ir": 'cat("word\\n")'}.get(name, "print('word')")
        assert printed(client, code) == "word\n"
        sockets = listening_sockets(server.home)
        of_server = int(server.url.rpartition(":")[2])
        assert {socket.address[1] for socket in sockets if socket.kind != "unix"} == {of_server}
        folder = Path(client.ip).parent
        assert folder.stat().st_mode & 0o777 == 0o700 and not folder.is_symlink()
        mine = [socket for socket in sockets if str(socket.address).startswith(client.ip)]
        assert len(mine) >= 5
        answers = as_neighbour(mine)
        assert set(map(tuple, answers.values())) == {(None,) * 4}
    finally:
        client.stop_channels()
        assert server.client.delete(f"api/kernels/{id}").status_code == 204
    assert not list(folder.glob(f"{Path(client.ip).name}-*")), "nothing is left of an ended kernel"


def test_what_forked_processes_print_comes_by_a_unix_socket(server: SessionServer) -> None:
    id, client = start(server, "python3")
    forked = "multiprocessing.get_context('fork').Process(target=print, args=['from a child'])"
    try:
        code = f"import multiprocessing\nchild = {forked}\nchild.start(); child.join()"
        assert printed(client, code) == "from a child\n"
    finally:
        client.stop_channels()
        server.client.delete(f"api/kernels/{id}")


def test_no_other_account_gets_in_with_the_debugger_on(server: SessionServer) -> None:
    id, client = start(server, "python3")
    try:
        debug(client)
        sockets = listening_sockets(server.home)
        of_server = int(server.url.rpartition(":")[2])
        ports = [
            socket for socket in sockets if socket.kind != "unix" and socket.address[1] != of_server
        ]
        assert len(ports) >= 2, "debugpy's adapter listens for clients and for debugged processes"
        # Anybody on the node could log in here, and then evaluate code in the kernel.
        assert set(map(tuple, as_neighbour(ports).values())) == {("",) * 4}
        assert printed(client, "print(6 * 7)") == "42\n"
        # Its owner's goes on: the debugger sees the kernel's threads.
        reply = ask_debugger(client, "threads", {})
        assert reply["success"] and reply["body"]["threads"], reply
    finally:
        client.stop_channels()
        server.client.delete(f"api/kernels/{id}")


def test_nothing_of_a_session_answers_another_account(server: SessionServer) -> None:
    """Everything on at once: Python with its debugger, R, Bash, a TensorBoard."""
    kernels = [start(server, name) for name in KERNELS]
    try:
        debug(kernels[0][1])
        (server.home / "logs").mkdir()
        board = server.start("logs")
        server.until(board, "ready", "ended")
        sockets = listening_sockets(server.home)
        assert not [socket for socket in sockets if str(socket.address).startswith("\0")], (
            "abstract sockets"
        )
        answers = as_neighbour(sockets)
        reached = {
            address: told for address, told in answers.items() if not all(map(is_refusal, told))
        }
        assert not reached
        assert len(answers) > 3 * len(KERNELS)
    finally:
        for id, client in kernels:
            client.stop_channels()
            server.client.delete(f"api/kernels/{id}")
    wait_for(lambda: not list(server.home.glob("t/portal-k-*/*")), lambda: "sockets are left")
