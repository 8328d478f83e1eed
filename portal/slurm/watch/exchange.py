"""Exchange of Slurm's answers between the Hub and the service, which watch the same cluster.

Each process writes the output of its queries into a folder that only their account can read, and
takes the other's output in place of a query if that is new enough. Files are replaced as a whole.
Times are those of the monotonic clock, which all processes of a machine share. A file that cannot
be read or written costs a query and nothing else.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from .. import parse

VARIABLE = "PORTAL_SLURM_EXCHANGE"  # the folder's path, which the Hub passes to its service
_PREFIX = "portal-slurm-"
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder gets a name of its own there, and mode 700
_SEPARATOR = "separator"
_LONGEST_TIME = 64  # bytes of a file's first line
T = TypeVar("T")
_locks: list[int] = []  # of the folders that this process has made


class Exchange:
    """Outputs by the name of their query, in ``folder``; "" or a folder that others can enter: no
    exchange."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) if folder and _private(Path(folder)) else None

    @property
    def active(self) -> bool:
        """Return True if there is a folder for it."""
        return self._folder is not None

    def separator(self) -> str:
        """Return the separator of squeue's fields, which both processes need to have in common."""
        if self._folder is not None:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if text := (self._folder / _SEPARATOR).read_text():
                    return text
        return parse.new_separator()

    def put(self, name: str, text: str, asked_at: float) -> None:
        """Write the output of a query that was sent at ``asked_at`` (time.monotonic()). Blocks."""
        if self._folder is None:
            return
        new = self._folder / f".{name}-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            new.write_bytes(f"{asked_at!r}\n{text}".encode())
            new.replace(self._folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()

    def newer_than(self, name: str, moment: float) -> tuple[str, float] | None:
        """Return the output of the newest query and when it was sent, if that was at ``moment``
        (time.monotonic()) or later. Blocks, as long as it takes to read a file in memory."""
        if self._folder is None:
            return None
        try:
            with (self._folder / name).open("rb") as file:
                asked_at = float(file.readline(_LONGEST_TIME))
                if moment <= asked_at <= time.monotonic():
                    return file.read().decode(), asked_at
        except (OSError, ValueError):
            pass
        return None

    def lock(self, name: str) -> int:
        """Lock the query's name until the descriptor that is returned is closed. Raises
        BlockingIOError if another process has locked it, OSError if there is no folder."""
        assert self._folder is not None
        return _locked(self._folder / f".{name}.lock", os.O_RDWR | os.O_CREAT)


class SharedOutput(Generic[T]):
    """Output ``name`` of the exchange as an answer to a query cache (OtherProcess there). ``read``
    parses it, ``taken`` is called for each one that is used in place of an own query."""

    def __init__(
        self,
        exchange: Exchange,
        name: str,
        read: Callable[[str], T],
        taken: Callable[[], None] = lambda: None,
    ) -> None:
        self._exchange, self._name, self._read = exchange, name, read
        self.taken = taken
        self._lock: int | None = None  # held while the own query is under way

    async def newer_than(self, moment: float) -> tuple[T, float] | None:
        """Return the newest answer and when it was sent, unless that was before ``moment``."""
        return await asyncio.to_thread(self._newer_than, moment)

    def _newer_than(self, moment: float) -> tuple[T, float] | None:
        output = self._exchange.newer_than(self._name, moment)
        try:
            return None if output is None else (self._read(output[0]), output[1])
        except (ValueError, LookupError):
            return None  # the own query says what cannot be read

    def begin(self) -> bool:
        """Announce an own query; return False while the other process's is under way."""
        if self._lock is None:
            try:
                self._lock = self._exchange.lock(self._name)
            except BlockingIOError:
                return False
            except OSError:
                return True  # the folder is gone
        return True

    def end(self) -> None:
        """Note that the own query has ended."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def new_folder() -> str:
    """Make a folder for the exchange, which is removed when this process ends; return its path, or
    "" if that is impossible. Removes what killed processes of this account have left."""
    parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    try:
        _sweep(parent)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # mode 700
        _locks.append(_locked(folder, os.O_RDONLY | os.O_DIRECTORY))
        (folder / _SEPARATOR).write_text(parse.new_separator())
    except OSError:
        return ""
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if _private(folder):
                os.close(_locked(folder, os.O_RDONLY | os.O_DIRECTORY))
                shutil.rmtree(folder, ignore_errors=True)


def _locked(path: Path, flags: int) -> int:
    """Lock a file or folder until the descriptor that is returned is closed, at the latest by the
    end of this process. Raises BlockingIOError if it is locked, OSError if it cannot be opened."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _private(folder: Path) -> bool:
    """Return True for a folder of this account that nobody else can enter."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return own and not status.st_mode & 0o077
