"""The object that a thread in the kernel waits for: a file, a connection, or nothing that can be
told. Read from /proc/PID/task/TID/syscall and /proc/PID/fd (proc(5)), as the same account."""

from __future__ import annotations

import os
import platform
import re
import struct
from pathlib import Path
from typing import NamedTuple

COMPUTING, READING, WRITING, RECEIVING, NOTHING = (
    "computing",
    "reading",
    "writing",
    "receiving",
    "nothing",
)
_FILE, _PATH, _PATH_AT, _OUT, _SOCKET, _POLL, _EPOLL = range(7)
# Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl in Linux, and of other machines
# include/uapi/asm-generic/unistd.h), by what their first arguments are: a file's descriptor, a
# path, a folder's descriptor and a path, a file that is written, a socket, those of poll(2) and of
# epoll(7).
_CALLS = {
    "x86_64": {
        _FILE: (0, 17, 19, 78, 217, 295, 327, 5, 8, 40),
        _PATH: (2, 4, 6, 21, 89),
        _PATH_AT: (257, 262, 267, 269, 332, 437, 439),
        _OUT: (1, 18, 20, 74, 75, 277, 296, 328, 77),
        _SOCKET: (45, 47, 42),
        _POLL: (7, 271),
        _EPOLL: (232, 281, 441),
    },
    "aarch64": {
        _FILE: (61, 62, 63, 65, 67, 69, 80, 286),
        _PATH: (),
        _PATH_AT: (48, 56, 78, 79, 291, 437, 439),
        _OUT: (46, 64, 66, 68, 70, 82, 83, 84, 287),
        _SOCKET: (203, 207, 212),
        _POLL: (73,),
        _EPOLL: (22, 441),
    },
}
_BY_NUMBER = {
    number: kind
    for kind, numbers in _CALLS.get(platform.machine(), {}).items()
    for number in numbers
}
_NO_CALL = -1  # it waits outside of a system call: for a page of a file that is mapped into memory
_LONGEST_PATH = 4096
_MOST_POLLED = 64
_NOT_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/run/user/")
_SOCKET_LINK = re.compile(r"socket:\[(\d+)\]")


class Wait(NamedTuple):
    """State of a thread at one moment. ``path``: of the file, or "" if it is not known;
    ``sockets``: inodes. ``idle``: of RECEIVING, an event loop that may wait for anything."""

    kind: str
    path: str = ""
    sockets: tuple[int, ...] = ()
    idle: bool = False


_NOTHING = Wait(NOTHING)


def wait_of(process: Path, thread: Path) -> Wait | None:
    """Return what a thread does. ``process`` and ``thread`` are its folders in /proc. None if it
    has ended."""
    try:
        words = (thread / "syscall").read_text().split()
    except PermissionError:
        return _by_state(thread)
    except OSError:
        return None
    if not words or words[0] == "running":
        return Wait(COMPUTING)
    try:
        number, *arguments = int(words[0]), *(int(word, 16) for word in words[1:])
    except ValueError:
        return _NOTHING
    if number == _NO_CALL:
        return Wait(READING) if _state(thread) == "D" else _NOTHING
    kind = _BY_NUMBER.get(number)
    if kind is None or len(arguments) < 3:
        return _NOTHING
    if kind in (_FILE, _OUT, _SOCKET):
        return _on_descriptor(process, kind, _signed(arguments[0]))
    if kind == _POLL:
        return _on_sockets(process, _polled(process, arguments[0], arguments[1]), idle=False)
    if kind == _EPOLL:
        return _on_sockets(process, _watched(process, _signed(arguments[0])), idle=True)
    if kind == _PATH:
        return _on_path(process, _text(process, arguments[0]), "cwd")
    folder = _signed(arguments[0])
    return _on_path(process, _text(process, arguments[1]), f"fd/{folder}" if folder >= 0 else "cwd")


def _on_descriptor(process: Path, kind: int, descriptor: int) -> Wait:
    target = _link(process, f"fd/{descriptor}")
    match = _SOCKET_LINK.fullmatch(target)
    if match:
        return _NOTHING if kind == _OUT else Wait(RECEIVING, sockets=(int(match[1]),))
    if not _is_file(target):
        return _NOTHING
    return Wait(WRITING if kind == _OUT else READING, target)


def _on_path(process: Path, path: str, folder: str) -> Wait:
    if path and not path.startswith("/"):
        path = os.path.normpath(os.path.join(_link(process, folder), path))
    return _NOTHING if path and not _is_file(path) else Wait(READING, path)


def _on_sockets(process: Path, descriptors: list[int], *, idle: bool) -> Wait:
    links = (_SOCKET_LINK.fullmatch(_link(process, f"fd/{each}")) for each in descriptors)
    inodes = tuple(int(link[1]) for link in links if link)
    return Wait(RECEIVING, sockets=inodes, idle=idle) if inodes else _NOTHING


def _by_state(thread: Path) -> Wait | None:
    """Return what the state alone tells, where system calls of others are not shown
    (kernel.yama.ptrace_scope above 1)."""
    state = _state(thread)
    if not state:
        return None
    return {"R": Wait(COMPUTING), "D": Wait(READING)}.get(state, _NOTHING)


def _state(thread: Path) -> str:
    try:
        # The name in parentheses may hold anything.
        return (thread / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _is_file(target: str) -> bool:
    return target.startswith("/") and not target.startswith(_NOT_FILES)


def _link(process: Path, name: str) -> str:
    try:
        return os.readlink(process / name).removesuffix(" (deleted)")  # noqa: PTH115 - quick
    except OSError:
        return ""


def _text(process: Path, address: int) -> str:
    """Return the text that ends with NUL at an address of a process; "" if it cannot be read."""
    # A read does not cross into a page that is not there.
    first = _memory(process, address, min(_LONGEST_PATH, 4096 - address % 4096))
    found, end, _ = first.partition(b"\0")
    if first and not end:
        found += _memory(process, address + len(first), _LONGEST_PATH).partition(b"\0")[0]
    return os.fsdecode(found)


def _polled(process: Path, address: int, count: int) -> list[int]:
    """Return the descriptors of poll(2)."""
    content = _memory(process, address, 8 * min(count, _MOST_POLLED))
    whole = content[: len(content) // 8 * 8]
    return [descriptor for descriptor, _, _ in struct.iter_unpack("=ihh", whole) if descriptor >= 0]


def _memory(process: Path, address: int, size: int) -> bytes:
    try:
        descriptor = os.open(process / "mem", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(descriptor)


def _watched(process: Path, descriptor: int) -> list[int]:
    """Return the descriptors of epoll(7), from /proc/PID/fdinfo."""
    try:
        text = (process / f"fdinfo/{descriptor}").read_text()
    except OSError:
        return []
    return [int(number) for number in re.findall(r"^tfd:\s*(\d+)", text, re.MULTILINE)]


def _signed(argument: int) -> int:
    """Return a descriptor: an int of 32 bits, which may be negative (AT_FDCWD)."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low
