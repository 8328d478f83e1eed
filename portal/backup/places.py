"""Places that a restore replaces: files, their owners and folders, and the step back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from portal.disk import sync_folder
from portal.errors import InvalidRequest

from .account import numbers_of, owner_of
from .manifest import Folder, KeptDatabase, KeptFile

NEW, BEFORE = ".restore-new", ".before-restore"


@dataclass
class Target:
    """File that is replaced; ``beside``: SQLite's own, which go with the former one."""

    path: Path
    kept: KeptFile | KeptDatabase
    beside: tuple[str, ...] = ()

    @property
    def new(self) -> Path:
        return self.path.with_name(self.path.name + NEW)

    def before(self, suffix: str = "") -> Path:
        """Return where the former file, or one of its own, waits."""
        return self.path.with_name(self.path.name + BEFORE + suffix)


def swap(target: Target, undo: list[Callable[[], object]]) -> None:
    """Rename the former file away and the new one to its place. SQLite's own files go first: a
    database must never meet the log of another one."""
    for suffix in (*target.beside, ""):
        current = target.path.with_name(target.path.name + suffix)
        before = target.before(suffix)
        if not (current.exists() or current.is_symlink()):
            continue
        if target.before().exists():  # of a restore that was killed: that one has the original
            current.unlink()
        else:
            current.rename(before)
        if before.exists() or before.is_symlink():
            undo.append(partial(before.replace, current))
    target.new.rename(target.path)
    undo.append(partial(target.path.unlink, missing_ok=True))
    sync_folder(target.path.parent)


def forget(path: Path) -> None:
    """Remove a former file. Raises InvalidRequest."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"Everything is restored, but {path}, the former file, cannot be removed: "
            f"{error.strerror}. Remove it before the next restore."
        ) from None


def make_folder(folder: Path, known: tuple[Folder, ...]) -> None:
    """Make a folder that is missing, as it was, and those above it."""
    if folder.is_dir():
        return
    make_folder(folder.parent, known)
    folder.mkdir(0o755)
    for former in known:
        if former.path == str(folder):
            _own(folder, former.owner, former.group)
            folder.chmod(former.mode)


def writer_of(folder: Path) -> str:
    """Return the owner of a folder: only as that one, root writes where others could have put a
    link."""
    return owner_of(folder.stat())[0]


def give(path: Path, kept: KeptFile | KeptDatabase) -> None:
    _own(path, kept.owner, kept.group)
    path.chmod(kept.mode)


def _own(path: Path, owner: str, group: str) -> None:
    """Give a file to an account, if this one may. Raises InvalidRequest for an unknown account."""
    numbers = numbers_of(owner, group)
    if numbers is None:
        raise InvalidRequest(
            f"The account {owner} or the group {group}, which {path.parent} needs, is not known on "
            "this machine. Create it, then restore again. Nothing was changed."
        )
    status = path.stat()
    if (status.st_uid, status.st_gid) != numbers and os.geteuid() == 0:
        os.chown(path, *numbers, follow_symlinks=False)


def remove_all(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
