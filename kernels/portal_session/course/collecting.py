"""Collection of a course's folders: a copy of each goes to the portal, as a tar."""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ..service import ServiceError

FILES = 10_000  # per collected folder
MEGABYTES = 500  # per collected folder; the site's own limit may be lower
DEPTH = 40  # levels of folders
_LEFT_OUT = (".git", ".ipynb_checkpoints", "__pycache__")  # folders


class NothingToGive(Exception):
    """Reason why there is nothing to hand in, in a sentence."""


class Collecting:
    """Collections of a course, each handed in once. ``look`` blocks: call it in a thread."""

    def __init__(self, service: Any, home: Path, log: Any) -> None:
        self._service = service
        self._home = home
        self._log = log
        self._given: set[int] = set()
        self._lock = threading.Lock()

    def apply_situation(self, course: Mapping[str, Any]) -> float:
        """Hand in what the situation asks for; return the seconds until the next look makes
        sense."""
        pause = 0.0
        for collection in course.get("collects") or ():
            with self._lock:
                if collection["id"] in self._given:
                    continue
            try:
                self.give(int(collection["id"]), str(collection["folder"]))
                self._given.add(collection["id"])
            except ServiceError as error:
                self._log.warning("A folder could not be handed in: %s", error)
                if error.status in (400, 403, 404, 409, 413):
                    self._given.add(collection["id"])  # it would be refused again
                pause = max(pause, error.retry_after, 10.0)
        return pause

    def give(self, number: int, folder: str) -> None:
        """Send ``folder``, or a sentence that says why not. Raises ServiceError."""
        path = f"session/collects/{number}"
        with tempfile.TemporaryFile(prefix="portal-collect-") as packed:
            try:
                left_out = pack(self._home, folder, packed)
            except NothingToGive as error:
                self._service.send("PUT", path, b"", {"problem": str(error)})
                return
            except OSError as error:
                problem = f"The folder could not be read: {error.strerror}."
                self._service.send("PUT", path, b"", {"problem": problem})
                return
            packed.seek(0)
            self._service.send("PUT", path, packed, {"left_out": str(left_out)})
        self._log.info("The folder '%s' was handed in.", folder)


def pack(home: Path, folder: str, into: IO[bytes]) -> int:
    """Write a tar of ``folder`` below ``home``; return how many entries were left out: links,
    devices, and what cannot be read. Raises NothingToGive, OSError.

    No link is followed at any level: each folder is opened relative to its parent.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    left_out = files = size = 0
    try:
        for part in folder.split("/"):
            try:
                below = os.open(part, flags, dir_fd=directory)
            except OSError:
                raise NothingToGive(f"There is no folder '{folder}'.") from None
            os.close(directory)
            directory = below
        with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name, opened, status in _walk(directory, ""):
                if opened is None or status is None:
                    left_out += 1
                    continue
                files, size = files + 1, size + status.st_size
                if files > FILES or size > MEGABYTES * 1024 * 1024:
                    raise NothingToGive(
                        f"The folder '{folder}' is too large: the limits are {FILES} files and "
                        f"{MEGABYTES} MB."
                    )
                about = tarfile.TarInfo(name)
                about.size, about.mtime, about.mode = status.st_size, int(status.st_mtime), 0o644
                try:
                    tar.addfile(about, _Exactly(opened, status.st_size))
                finally:
                    opened.close()
    finally:
        os.close(directory)
    return left_out


def _walk(folder: int, before: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield every file below an open folder: path, open file, and status; (path, None, None) for
    an entry that is left out."""
    for name in sorted(os.listdir(folder)):
        path = f"{before}{name}"
        try:
            path.encode("utf-8")
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if name in _LEFT_OUT or name.startswith(".git__"):
                    continue
                if path.count("/") > DEPTH:
                    raise ValueError
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                below = os.open(name, flags, dir_fd=folder)
            elif stat.S_ISREG(status.st_mode):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                opened = os.fdopen(os.open(name, flags, dir_fd=folder), "rb")
                yield path, opened, os.fstat(opened.fileno())
                continue
            else:
                raise OSError
        except (OSError, ValueError):
            yield path, None, None
            continue
        try:
            yield from _walk(below, f"{path}/")
        finally:
            os.close(below)


class _Exactly:
    """File that yields as many bytes as promised, though it may change meanwhile."""

    def __init__(self, opened: Any, size: int) -> None:
        self._opened = opened
        self._left = size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._opened.read(wanted)
        self._left -= wanted
        return bytes(data) + b"\0" * (wanted - len(data))
