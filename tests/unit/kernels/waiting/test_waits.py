"""What threads wait for, seen from outside: threads of this process, in real system calls. A FIFO
stands for a file that is slow."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_client import wait_until
from portal_session.waiting import blocked
from portal_session.waiting.blocked import NOTHING, READING, RECEIVING, WRITING, Wait, wait_of
from portal_session.waiting.connections import Connections
from portal_session.waiting.observation import Observer
from portal_session.waiting.waiting import mounts

SELF = Path("/proc/self")


@pytest.fixture
def waiting() -> Iterator[Callable[[Callable[[], object]], Path]]:
    """Runs a call in a thread; returns the thread's folder in /proc."""

    def run(call: Callable[[], object]) -> Path:
        threads: list[int] = []

        def work() -> None:
            threads.append(threading.get_native_id())
            call()

        threading.Thread(target=work, daemon=True).start()
        wait_until("the thread is there", lambda: threads)
        return SELF / "task" / str(threads[0])

    return run


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection by TCP: the server's and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    yield server, client
    server.close()
    client.close()


def seen(thread: Path, kind: str) -> Wait:
    wait_until(f"it is {kind}", lambda: (wait_of(SELF, thread) or Wait("")).kind == kind)
    wait = wait_of(SELF, thread)
    assert wait is not None
    return wait


def inode(end: socket.socket) -> int:
    return os.fstat(end.fileno()).st_ino


def test_a_read_names_its_file(waiting, tmp_path: Path) -> None:
    slow = tmp_path / "data/1.jpg"
    slow.parent.mkdir()
    os.mkfifo(slow)
    descriptor = os.open(slow, os.O_RDWR)
    thread = waiting(lambda: os.read(descriptor, 1))
    assert seen(thread, READING) == Wait(READING, str(slow))
    os.write(descriptor, b"x")


def test_an_open_names_its_file(waiting, tmp_path: Path) -> None:
    slow = tmp_path / "2.jpg"
    os.mkfifo(slow)
    folder = os.open(tmp_path, os.O_RDONLY)
    for call in (
        lambda: slow.open("rb").close(),
        lambda: os.close(os.open("2.jpg", os.O_RDONLY, dir_fd=folder)),
    ):
        thread = waiting(call)
        assert seen(thread, READING) == Wait(READING, str(slow))
        os.close(os.open(slow, os.O_WRONLY))
        wait_until("it is over", lambda: wait_of(SELF, thread) is None)  # noqa: B023
    os.close(folder)


def test_a_write_names_its_file(waiting, tmp_path: Path) -> None:
    slow = tmp_path / "out"
    os.mkfifo(slow)
    descriptor = os.open(slow, os.O_RDWR)
    thread = waiting(lambda: os.write(descriptor, b"x" * 200_000))
    assert seen(thread, WRITING) == Wait(WRITING, str(slow))
    left = 200_000
    while left:
        left -= len(os.read(descriptor, left))


def answered(server: socket.socket, thread: int) -> None:
    """Send what a thread waits for; return once it has it, or the next would find it too."""
    server.send(b"x")
    wait_until("it is over", lambda: wait_of(SELF, thread) is None)


def test_what_waits_for_a_connection(waiting, pair) -> None:
    server, client = pair
    thread = waiting(lambda: client.recv(1))
    assert seen(thread, RECEIVING) == Wait(RECEIVING, sockets=(inode(client),))
    answered(server, thread)
    poll = select.poll()
    poll.register(client, select.POLLIN)
    poll.register(0, 0)
    thread = waiting(poll.poll)
    assert seen(thread, RECEIVING) == Wait(RECEIVING, sockets=(inode(client),))
    answered(server, thread)
    client.recv(1)
    client.settimeout(60)  # as HTTP clients do
    thread = waiting(lambda: client.recv(1))
    assert seen(thread, RECEIVING).sockets == (inode(client),)
    answered(server, thread)
    epoll = select.epoll()
    epoll.register(client, select.EPOLLIN)
    thread = waiting(epoll.poll)
    assert seen(thread, RECEIVING) == Wait(RECEIVING, sockets=(inode(client),), idle=True)
    server.send(b"x")


def test_other_waits_tell_nothing(waiting) -> None:
    lock = threading.Lock()
    lock.acquire()
    thread = waiting(lock.acquire)
    reader, writer = os.pipe()
    other = waiting(lambda: os.read(reader, 1))
    asleep = waiting(lambda: time.sleep(60))
    for each in (thread, other, asleep):
        assert seen(each, NOTHING) == Wait(NOTHING)
    lock.release()
    os.write(writer, b"x")


def test_without_system_calls_the_state_tells(tmp_path: Path, monkeypatch) -> None:
    """A site may forbid to trace processes (kernel.yama.ptrace_scope)."""
    real = Path.read_text

    def read_text(path: Path, *args: object, **kwargs: object) -> str:
        if path.name == "syscall":
            raise PermissionError
        return real(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", read_text)
    for state, kind in (("R", "computing"), ("D", READING), ("S", NOTHING)):
        (tmp_path / "stat").write_text(f"7 (a) b) {state} 1 2 3")
        assert wait_of(tmp_path, tmp_path) == Wait(kind)
    (tmp_path / "stat").unlink()
    assert wait_of(tmp_path, tmp_path) is None


def test_calls_of_this_machine_are_known() -> None:
    assert set(blocked._BY_NUMBER.values()) >= {0, 2, 3, 4, 5, 6}


def test_connections_tell_their_peer_and_what_they_received(pair) -> None:
    server, client = pair
    connections = Connections()
    host, port = client.getpeername()
    assert connections.peer(inode(client)) == f"{host}:{port}"
    assert connections.received(inode(client)) == 0
    server.sendall(b"x" * 30_000)
    left = 30_000
    while left:
        left -= len(client.recv(left))

    def received() -> int:
        connections.peer(inode(client))  # which looks again
        return connections.received(inode(client))

    wait_until("the bytes are counted", lambda: received() == 30_000)
    assert connections.peer(1) == ""


def test_an_observation_is_of_the_threads_of_the_processes(waiting, tmp_path: Path, pair) -> None:
    server, client = pair
    for number in range(2):
        slow = tmp_path / str(number)
        os.mkfifo(slow)
        descriptor = os.open(slow, os.O_RDWR)
        seen(waiting(lambda: os.read(descriptor, 1)), READING)  # noqa: B023
    seen(waiting(lambda: client.recv(1)), RECEIVING)
    gpus = [{"utilization": 30}, {"utilization": 10}, {"utilization": None}]
    observer = Observer(lambda: [os.getpid(), 2**22 + 1], lambda: gpus, 4)
    observation = observer.observe(0.6)
    (program,) = observation.programs
    assert program.number == os.getpid()
    assert observation.gpu == 20
    assert observation.seconds >= 0.6
    own = {path: weight for path, weight in observation.read_from.items() if "/" in path}
    assert {path for path in own if path.startswith(str(tmp_path))} == {
        f"{tmp_path}/0",
        f"{tmp_path}/1",
    }
    assert own[f"{tmp_path}/0"] == pytest.approx(1)
    host, port = client.getpeername()
    assert observation.peers[f"{host}:{port}"] == pytest.approx(1)
    assert observation.total(READING) >= 2 - 1e-9
    server.send(b"x")


def test_an_event_loop_counts_if_it_receives_much(waiting, pair) -> None:
    server, client = pair
    client.setblocking(False)
    epoll = select.epoll()
    epoll.register(client, select.EPOLLIN)
    over = threading.Event()

    def loop() -> None:
        while not over.is_set():
            if epoll.poll(0.5):
                client.recv(1 << 16)

    thread = waiting(loop)
    seen(thread, RECEIVING)
    host, port = client.getpeername()
    observer = Observer(lambda: [os.getpid()], list, 4)
    assert f"{host}:{port}" not in observer.observe(0.5).peers

    def send() -> None:
        while not over.is_set():
            server.sendall(b"x" * 20_000)
            time.sleep(0.05)

    waiting(send)
    observation = observer.observe(1)
    over.set()
    assert observation.peers[f"{host}:{port}"] > 0.5
    assert observation.received > 100_000


def test_the_kind_of_file_system_by_mount_point(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_text(
        "36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw\n"
        "37 36 0:1 / /home\\040of\\040all rw - nfs4 server:/home rw\n"
        "nonsense\n"
    )
    assert mounts(tmp_path) == {"/": "ext4", "/home of all": "nfs4"}
    assert mounts(tmp_path / "none") == {}
