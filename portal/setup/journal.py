"""Journal of a setup: what it changed and what was there before, written before each change. A
setup that was ended anywhere continues from it, and undo goes back along it."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal.disk import sync_folder
from portal.errors import ConfigurationError, Conflict

from .place import STATE, Place

_NEW = ".setup-new"  # a file that is not in its place yet; none of the programs reads it


class Kept:
    """State of a file: its content, mode and owner."""

    def __init__(self, content: bytes, mode: int, uid: int, gid: int) -> None:
        self.content, self.mode, self.uid, self.gid = content, mode, uid, gid

    @property
    def hash(self) -> str:
        """Return the hash of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def same(self, other: Kept | None) -> bool:
        """Return True if nothing differs."""
        return other is not None and vars(self) == vars(other)

    def as_json(self) -> dict[str, Any]:
        """Return it for the journal."""
        return {**vars(self), "content": base64.b64encode(self.content).decode()}

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> Kept:
        """Return what the journal holds."""
        return cls(base64.b64decode(data["content"]), data["mode"], data["uid"], data["gid"])

    @classmethod
    def at(cls, path: Path) -> Kept | None:
        """Return the file at ``path``; None if there is none. Raises Conflict for anything that is
        not a plain file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Conflict(
                f"{path} is not a plain file that can be read ({error.strerror}): setup does not "
                "write there. Move it away."
            ) from None
        with os.fdopen(descriptor, "rb") as file:
            try:
                content = file.read()
            except IsADirectoryError:
                raise Conflict(f"{path} is a folder: setup writes a file there.") from None
            status = os.fstat(file.fileno())
        return cls(content, status.st_mode & 0o7777, status.st_uid, status.st_gid)


class Journal:
    """Journal of this machine. ``entries``: by step, in the order in which they were begun;
    ``pending``: what is still to be done after a change, such as a restart."""

    def __init__(self, place: Place) -> None:
        self.path = place.path(f"{STATE}/setup.json")
        self.entries: dict[str, dict[str, Any]] = {}
        self.pending: list[str] = []
        if (kept := Kept.at(self.path)) is not None:
            try:
                data = json.loads(kept.content)
                self.entries, self.pending = dict(data["entries"]), list(data["pending"])
            except (ValueError, KeyError, TypeError):
                raise ConfigurationError(
                    f"{self.path} cannot be read: it is not as setup writes it. Restore it from a "
                    "backup, or move it away; undo knows nothing then."
                ) from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other setups out meanwhile. Raises Conflict if one runs."""
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Conflict("Another `portal setup` runs on this machine.") from None
            yield

    def begin(self, step: str, entry: dict[str, Any], then: tuple[str, ...] = ()) -> None:
        """Write down that ``step`` changes something now, and what follows ``then``. What was
        there before the first setup stays known."""
        if "before" in (known := self.entries.get(step, {})):
            entry = {**entry, "before": known["before"]}
        self.entries[step] = {"then": list(then), **entry}
        self.pending += [action for action in then if action not in self.pending]
        self.save()

    def forget(self, step: str) -> None:
        """Write down that ``step`` is undone."""
        del self.entries[step]
        self.save()

    def done(self, action: str) -> None:
        """Write down that a pending action was done."""
        self.pending = [other for other in self.pending if other != action]
        self.save()

    def save(self) -> None:
        """Write the journal. Raises OSError; the old one is there then."""
        data = {"entries": self.entries, "pending": self.pending}
        put(self.path, Kept(json.dumps(data, indent=1).encode(), 0o600, os.geteuid(), os.getegid()))


def beside(path: Path) -> Path:
    """Return where something is made before it takes its place at ``path``."""
    return path.with_name(f".{path.name}{_NEW}")


def put(path: Path, new: Kept) -> None:
    """Put a file in its place at once: beside it first, on the disk, then renamed. Raises OSError;
    what was there is there then."""
    trial = beside(path)
    trial.unlink(missing_ok=True)
    descriptor = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new.content)
            file.flush()
            os.fchown(file.fileno(), new.uid, new.gid)
            os.fchmod(file.fileno(), new.mode)
            os.fsync(file.fileno())
        trial.rename(path)
    except BaseException:
        trial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, and what a setup that was ended left beside it."""
    path.unlink(missing_ok=True)
    beside(path).unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_folder(path.parent)
