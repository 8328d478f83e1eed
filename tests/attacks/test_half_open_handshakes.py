"""Half-open TLS handshakes with a kernel's relay, from its own node and from others: they hold no
memory, and the starter of the kernel's job comes through meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from machine import patience
from portal_session.job_kernels.wire.handshakes import MOST
from portal_session.job_kernels.wire.keys import context, make_keys, server_name

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")
STRANGER = pwd.getpwnam("games").pw_uid
NUMBER = 600
KERNELS = Path(__file__).resolve().parents[2] / "kernels"
# A relay's listener: its input has the keys and ends with it, its first line is its port.
_RELAY = """
import asyncio, json, socket, sys
from portal_session.job_kernels.wire.handshakes import Handshakes
from portal_session.job_kernels.wire.keys import context, server_name
from portal_session.job_kernels.wire.listener import listening

async def greet(reader, writer):
    writer.write(await reader.readline())

async def main():
    keys = json.loads(sys.stdin.readline())
    bound = listening("127.0.0.1", socket.AF_INET, "")
    print(bound.getsockname()[1], flush=True)
    server = Handshakes(bound, context(*keys, server=True), server_name(keys[1]), greet)
    await asyncio.to_thread(sys.stdin.read)
    server.close()

asyncio.run(main())
"""
# Begins handshakes with the first bytes of one, and holds them until its input ends.
_HOLD = """
import socket, ssl, sys
host, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sending = ssl.MemoryBIO()
tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sending, server_hostname="x")
try:
    tls.do_handshake()
except ssl.SSLWantReadError:
    hello = sending.read()
held = []
for _ in range(number):
    held.append(socket.create_connection((host, port), 10))
    try:
        held[-1].sendall(hello)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""


class Relay(NamedTuple):
    """Relay's listener in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    keys: tuple[str, str]

    @property
    def memory(self) -> float:
        """Resident memory, in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert match
        return int(match[1]) / 1024

    @property
    def connections(self) -> int:
        """Number of its open sockets to others."""
        number = 0
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                number += str(path.readlink()).startswith("socket:")
        return number

    def greeted(self, host: str, *, name: bool = True) -> bool:
        """Connect as the starter does from a node with that address; ``name``: of today's
        version."""
        tls = context(*self.keys, server=False)
        said = server_name(self.keys[1]) if name else None
        try:
            with (
                socket.create_connection(("127.0.0.1", self.port), patience(5), (host, 0)) as plain,
                tls.wrap_socket(plain, server_hostname=said) as connection,
            ):
                connection.sendall(b"hello\n")
                return connection.recv(10) == b"hello\n"
        except OSError:
            return False


@pytest.fixture
def relay() -> Iterator[Relay]:
    keys = make_keys()
    process = subprocess.Popen(
        [sys.executable, "-c", _RELAY],
        env={**os.environ, "PYTHONPATH": str(KERNELS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(keys) + "\n")
    process.stdin.flush()
    relay = Relay(process, int(process.stdout.readline()), keys)
    assert relay.greeted("127.0.0.1")
    yield relay
    process.communicate(timeout=20)
    assert process.returncode == 0


@contextlib.contextmanager
def half_open(relay: Relay, user: int | None = None) -> Iterator[None]:
    """Hold handshakes that have begun; ``user``: of another user of the node."""
    others = {} if user is None else {"user": user, "group": user, "extra_groups": [], "cwd": "/"}
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, "127.0.0.1", str(relay.port), str(NUMBER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **others,  # type: ignore[call-overload]
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"%d\n" % NUMBER
        yield
    finally:
        process.communicate(timeout=20)


def test_they_hold_no_memory(relay: Relay) -> None:
    """Those of the own user stand for another node's: both may be the starter's."""
    before = relay.memory
    with half_open(relay):
        assert relay.greeted("127.0.0.1") and relay.greeted("127.0.0.2")
        assert relay.connections <= MOST + 5
    assert relay.memory - before < MOST * 0.5 + 10


@needs_root
def test_a_neighbour_s_are_closed_at_once(relay: Relay) -> None:
    before, sockets = relay.memory, relay.connections
    with half_open(relay, STRANGER):
        assert relay.greeted("127.0.0.1")
        assert relay.connections <= sockets + 2
    assert relay.memory - before < 10


@pytest.mark.parametrize(("host", "name"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_the_starter_comes_through_a_flood(relay: Relay, host: str, name: bool) -> None:
    """Connections come and come from one address. A starter there is known by its name; one of an
    older version, without it, by its other address."""
    over = threading.Event()
    hellos = ssl.MemoryBIO()
    stranger = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hellos, server_hostname="x")
    with contextlib.suppress(ssl.SSLWantReadError):
        stranger.do_handshake()
    hello = hellos.read()
    count = 0

    def flood() -> None:
        nonlocal count
        held: list[socket.socket] = []
        while not over.is_set() and count < 20_000:
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", relay.port), 5))
                held[-1].sendall(hello)
                count += 1
            if len(held) > 200:
                held.pop(0).close()
        for connection in held:
            connection.close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        while count < 100:
            time.sleep(0.01)
        began, before = time.monotonic(), count
        assert [relay.greeted(host, name=name) for _ in range(3)] == [True] * 3
        assert time.monotonic() - began < patience(10)
        assert count > before, "the flood went on"
    finally:
        over.set()
        flooding.join()
