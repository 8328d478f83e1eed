"""Reading along, and taking over, through what a session listens on: loopback is the whole node's.

A neighbour finds every port in /proc/net/tcp and every abstract socket in /proc/net/unix. ZeroMQ
gives a kernel's output to every subscriber, and debugpy runs what it is sent.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from listening import Socket, as_neighbour, as_owner, listening_sockets, reached, told
from portal_session.kernels.environment import command_of
from session_server import KERNELS as PACKAGE
from session_server import SessionServer, a_server, make_python, wait_for

PATIENCE = 60
_MLFLOW = """
import pathlib, sys, time
from portal_session.runs.tracking import mlflow_runs, mlflow_server
runs = mlflow_runs.MlflowRuns(pathlib.Path(sys.argv[1]), None, "ada")
mlflow_server.MlflowServer(runs).start()
print("listens", flush=True)
time.sleep(600)
"""
KERNELS = ("python3", "bash", "ir")
# debugpy opens one for a moment, in the kernel, by which it takes what its adapter says.
_ENDPOINTS = """
import threading
from debugpy.common import sockets
endpoints = sockets.create_server("127.0.0.1", 0)
def serve():
    while True:
        endpoints.accept()[0].send(b"{}")
threading.Thread(target=serve, daemon=True).start()
"""


def sockets_of(server: SessionServer) -> tuple[list[Socket], list[Socket]]:
    """The session's listening sockets, and those among them that are ports, without its page's."""
    own = ["127.0.0.1", int(server.url.rpartition(":")[2])]
    sockets = listening_sockets(as_owner, str(server.home))
    return sockets, [(kind, at) for kind, at in sockets if kind != "unix" and at != own]


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
    until_ready(client, server)
    return id, client


def until_ready(client: BlockingKernelClient, server: SessionServer) -> None:
    """Wait until the kernel answers."""

    def answers() -> bool:
        with contextlib.suppress(RuntimeError):  # "died": its heart does not beat yet
            client.wait_for_ready(timeout=PATIENCE)
            return True
        return False

    wait_for(answers, server.log.read_text)


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
    """Switch the debugger on, and open a port of each kind that it has."""
    ready = ask_debugger(
        client, "initialize", {"clientID": "t", "adapterID": "", "pathFormat": "path"}
    )
    assert ready["success"], ready
    assert ask_debugger(client, "attach", {})["success"]
    printed(client, _ENDPOINTS)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_no_port_and_a_folder_of_its_own(server: SessionServer, name: str) -> None:
    id, client = start(server, name)
    try:
        code = {"bash": "echo word", "ir": 'cat("word\\n")'}.get(name, "print('word')")
        assert printed(client, code) == "word\n"
        sockets, ports = sockets_of(server)
        assert ports == []
        folder = Path(client.ip).parent
        assert folder.stat().st_mode & 0o777 == 0o700 and not folder.is_symlink()
        mine = [socket for socket in sockets if str(socket[1]).startswith(client.ip)]
        assert len(mine) >= 5
        assert set(map(tuple, told(as_neighbour, mine).values())) == {(None,) * 4}
    finally:
        client.stop_channels()
        assert server.client.delete(f"api/kernels/{id}").status_code == 204
    assert not list(folder.glob(f"{Path(client.ip).name}-*")), "nothing is left of an ended kernel"


def test_forked_processes_print_by_a_unix_socket_also_after_a_restart(
    server: SessionServer,
) -> None:
    id, client = start(server, "python3")
    forked = "multiprocessing.get_context('fork').Process(target=print, args=['from a child'])"
    code = f"import multiprocessing\nchild = {forked}\nchild.start(); child.join()"
    try:
        assert printed(client, code) == "from a child\n"
        assert server.client.post(f"api/kernels/{id}/restart").status_code == 200
        until_ready(client, server)
        assert printed(client, code) == "from a child\n"
        assert sockets_of(server)[1] == []
    finally:
        client.stop_channels()
        server.client.delete(f"api/kernels/{id}")


def test_no_other_account_gets_in_with_the_debugger_on(server: SessionServer) -> None:
    id, client = start(server, "python3")
    try:
        debug(client)
        _, ports = sockets_of(server)
        assert len(ports) >= 3, "debugpy's adapter listens for clients and for debugged processes"
        # Anybody on the node could log in here, and then evaluate code in the kernel.
        assert set(map(tuple, told(as_neighbour, ports).values())) == {("",) * 4}
        assert printed(client, "print(6 * 7)") == "42\n"
        # Its owner's goes on: the debugger sees the kernel's threads.
        reply = ask_debugger(client, "threads", {})
        assert reply["success"] and reply["body"]["threads"], reply
    finally:
        client.stop_channels()
        server.client.delete(f"api/kernels/{id}")


def test_a_kernel_in_a_container_beside_the_server_closes_them_by_itself(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no other file of the package: only the copy among its sockets."""
    beside = {"exec": ["/bin/apptainer", "exec"], "image": "/i.sif", "roots": ["/home"]}
    monkeypatch.setenv("PORTAL_CONTAINER", json.dumps(beside))
    spec = KernelSpec(argv=[str(python), "-m", "ipykernel"], language="python")
    folder = tempfile.mkdtemp(prefix="portal-k-")
    command = command_of(spec, "python3", spec.argv, dict(os.environ), "", folder)
    assert command.argv[2:5] == ["--bind", folder, "/i.sif"]
    startup = command.env["APPTAINERENV_PYTHONSTARTUP"]
    assert Path(startup).parents[1] == Path(folder)
    manager = KernelManager(transport="ipc", ip=f"{folder}/1")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONSTARTUP": startup}
    manager.start_kernel(env=environ)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        debug(client)
        sockets = listening_sockets(as_owner, str(tmp_path))
        ports = [(kind, at) for kind, at in sockets if kind != "unix"]
        assert len(ports) >= 3
        assert set(map(tuple, told(as_neighbour, ports).values())) == {("",) * 4}
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        shutil.rmtree(folder)


@pytest.fixture
def mlflow(server: SessionServer, python: Path) -> Iterator[None]:
    """The address that a run's point gives to MLflow, in a process of the session's owner."""
    argv, environ = [str(python), "-c", _MLFLOW, str(server.home)], {"HOME": str(server.home)}
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"listens\n"
        yield
        process.kill()


def test_nothing_of_a_session_answers_another_account(server: SessionServer, mlflow: None) -> None:
    """Everything at once: Python with its debugger, R, Bash, a TensorBoard, MLflow's address."""
    kernels = [start(server, name) for name in KERNELS]
    try:
        debug(kernels[0][1])
        (server.home / "logs").mkdir()
        board = server.start("logs")
        server.until(board, "ready", "ended")
        sockets, ports = sockets_of(server)
        assert not [at for _, at in sockets if str(at).startswith("\0")], "abstract sockets"
        assert len(sockets) > 5 * len(KERNELS) and len(ports) >= 4
        assert reached(as_neighbour, sockets) == {}
    finally:
        for id, client in kernels:
            client.stop_channels()
            server.client.delete(f"api/kernels/{id}")
    wait_for(lambda: not list(server.home.glob("t/portal-k-*/*")), lambda: "sockets are left")
