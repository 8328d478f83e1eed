"""Private directory for sockets: of this session's TensorBoards or its other programs, with a place
for each, or of its kernels (`kernels.sockets`).

Every user of a node may connect to its localhost, and neither a program nor a kernel's output asks
for a password. So each listens on a Unix socket in a directory that only its owner can enter
(mode 700). The directory has a random name: nobody can have created it before. Its path is short,
because the address of a Unix socket has 107 bytes at most (unix(7)).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIX = "portal-tb-"
OF_KERNELS = "portal-k-"
LONGEST_SOCKET = 107  # bytes
_OF_PLACES = "65535/socket"
_SETTLED = 60.0  # seconds: a newer directory may not be locked yet


class Runtime:
    """Directory ``path``, locked for as long as the process that made it lives."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(
        cls, environ: Mapping[str, str], prefix: str = PREFIX, longest: str = _OF_PLACES
    ) -> Runtime:
        """Create a new directory, whose name begins with ``prefix``, for sockets up to ``longest``
        below it. Raises OSError with a sentence if there is no suitable folder for it."""
        for parent in _parents(environ, longest):
            try:
                path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            except OSError:
                continue
            # systemd-tmpfiles leaves a locked directory alone (tmpfiles.d(5)), and the lock tells
            # the programs in it that the session still runs.
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, lock)
        raise OSError(
            "There is no folder on this node for the sockets of kernels and programs. "
            "Set TMPDIR to a short path of your own."
        )

    def claim(self) -> Place:
        """Create a new place. Its number stands for a port where TensorBoard wants one."""
        while True:
            path = self.path / str(1024 + secrets.randbelow(64512))
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return Place(path)

    def places(self) -> list[Place]:
        try:
            entries = list(self.path.iterdir())
        except OSError:
            return []
        return [Place(path) for path in entries if path.name.isdecimal()]

    def is_abandoned(self) -> bool:
        """Return True if the session that made the directory is over."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def hand_on(self) -> None:
        """Let the program that replaces this process have the lock."""
        if self._lock is not None:
            os.set_inheritable(self._lock, True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Place:
    """Files of one program in the directory: its socket, log and state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = int(path.name)
        self.socket = path / "socket"
        self.log = path / "log"
        self.about = path / "about.json"
        self.state = path / "state.json"
        self.links = path / "logs"

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def remove_leftovers(environ: Mapping[str, str]) -> None:
    """Remove the directories of this user's sessions that were killed."""
    for parent in _parents(environ):
        for path in (*parent.glob(PREFIX + "*"), *parent.glob(OF_KERNELS + "*")):
            try:
                status = path.lstat()
            except OSError:
                continue
            is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if is_own and time.time() - status.st_mtime > _SETTLED and Runtime(path).is_abandoned():
                shutil.rmtree(path, ignore_errors=True)


def _parents(environ: Mapping[str, str], longest: str = _OF_PLACES) -> Iterator[Path]:
    """Yield folders for the directory: on this node, short, and safe from other users."""
    seen = set()
    # logind removes XDG_RUNTIME_DIR when its user logs out of the node, though jobs go on.
    last = environ.get("XDG_RUNTIME_DIR", "")
    for name in (tempfile.gettempdir(), "/tmp", "/dev/shm", last):  # noqa: S108 - a directory of mode 700 is made in it
        # Apptainer's --bind, by which a container beside the server sees it, has no quoting.
        if not name.startswith("/") or name in seen or ":" in name or "," in name:
            continue
        seen.add(name)
        socket = os.fsencode(f"{name}/{PREFIX}12345678/{longest}")
        if len(socket) <= LONGEST_SOCKET and _is_safe(Path(name)):
            yield Path(name)


def _overflow() -> int:
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return 65534


def _is_safe(directory: Path) -> bool:
    """Return True if nobody else could replace what this user creates in it (the sticky bit, else
    writable by its owner alone)."""
    try:
        status = directory.stat()
    except OSError:
        return False
    # In a container with a user namespace, root's files seem to belong to "nobody"
    # (user_namespaces(7), overflowuid).
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.getuid(), _overflow()):
        return False
    open_to_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return bool(status.st_mode & stat.S_ISVTX) or not open_to_others
