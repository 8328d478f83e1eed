"""Idle connections of a neighbour on the node to the address of MLflow's API: they hold none of the
places that the run's own programs need."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from machine import patience
from portal_session.peers import uids_of_peers
from portal_session.runs.tracking.mlflow_runs import MlflowRuns
from portal_session.runs.tracking.mlflow_server import TOKEN, URI, MlflowServer

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")
STRANGER = pwd.getpwnam("games").pw_uid
# Opens connections, says how many, and holds them until its input ends.
_HOLD = """
import socket, sys
host, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = [socket.create_connection((host, port), 10) for _ in range(number)]
print(len(held), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MlflowServer]:
    server = MlflowServer(MlflowRuns(tmp_path, tmp_path / "metrics.jsonl", "ada"))
    server.start()
    yield server
    server.close()


def address(server: MlflowServer) -> tuple[str, int]:
    url = httpx.URL(server.variables({})[URI])
    return url.host, int(url.port or 0)


def logs(server: MlflowServer) -> int:
    """Log as the run's program does; return the HTTP status."""
    variables = server.variables({})
    return httpx.post(
        f"{variables[URI]}/api/2.0/mlflow/runs/create",
        headers={"Authorization": f"Bearer {variables[TOKEN]}"},
        json={},
        trust_env=False,
        timeout=patience(10),
    ).status_code


def threads() -> int:
    return sum("process_request" in thread.name for thread in threading.enumerate())


@needs_root
def test_a_neighbour_holds_no_place(server: MlflowServer) -> None:
    neighbour = subprocess.Popen(
        [sys.executable, "-c", _HOLD, *map(str, address(server)), "300"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
    )
    try:
        assert neighbour.stdout is not None and neighbour.stdout.readline() == b"300\n"
        began = time.monotonic()
        assert [logs(server) for _ in range(5)] == [200] * 5
        assert time.monotonic() - began < patience(5)
        assert threads() <= 5, "no thread waits for the neighbour"
    finally:
        neighbour.communicate(timeout=20)


@needs_root
def test_its_token_is_of_no_use_to_a_neighbour(server: MlflowServer) -> None:
    """Whoever has read it elsewhere, such as in a log, cannot use it from another account."""
    token = server.variables({})[TOKEN]
    code = (
        "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)\n"
        "try:\n"
        "    s.sendall(b'GET /api/2.0/mlflow/experiments/search HTTP/1.0\\r\\n'\n"
        f"              b'Authorization: Bearer {token}\\r\\n\\r\\n')\n"
        "    print(s.recv(100))\n"
        "except OSError:\n"
        "    print(b'')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, address(server))],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "b''\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_user_of_a_connection(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listening,
        socket.create_connection(listening.getsockname()[:2]) as client,
    ):
        accepted, _ = listening.accept()
        with accepted:
            assert uids_of_peers([accepted, client]) == [os.getuid()] * 2
    assert uids_of_peers([client]) == [None], "it is closed"
