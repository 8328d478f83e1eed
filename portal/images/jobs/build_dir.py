"""Temporary folder of a build: locked while the build lives, removed by it or by the next one."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..apptainer.enclosure import TEMPORARY
from ..outcome import CouldNotRun
from ..processes import children, end_descendants

_BEGIN = ".build-"
_LOCK = "lock"
_NO_LOCK = 3600  # seconds until a folder without a lock counts as left
_STALE = 2 * 86400  # likewise where the file system knows no locks
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_GIB = 1024**3


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """Make a folder below ``folder``, removed with everything in it when the block ends, however
    it ends. Folders that killed builds left are removed first. Raises CouldNotRun."""
    before = children()
    try:
        remove_left(folder)
        work = Path(tempfile.mkdtemp(prefix=_BEGIN, dir=folder))
        # Named only once it is held: else another build would take it, and this one for dead.
        lock = (work / f"new-{_LOCK}").open("w")
        _held(lock.fileno())
        Path(lock.name).rename(work / _LOCK)
    except OSError as error:
        raise CouldNotRun(
            f"'{folder}' is not writable: {error.strerror}. The account of the builds needs "
            "its own folder there (c.Images.directory)."
        ) from None
    try:
        yield work
    finally:
        end_descendants(but=before)  # they would write on while their files are removed
        remove_tree(work)
        lock.close()


def alone(work: Path, *seen: str) -> dict[str, str]:
    """Return variables with which Apptainer's containers see nothing of this account's other jobs
    on the node: /tmp and /var/tmp are folders of their own below ``work``, and only their own
    processes are visible. ``seen``: folders that they see all the same, wherever those are.

    This holds for commands without rights in their container; %post, which has them, is kept apart
    by an `Enclosure`.
    """
    binds = [f"{own}:{place}" for place, own in own_temporary(work).items()]
    binds += [f"{folder}:{folder}" for folder in seen]
    return {"APPTAINER_BINDPATH": ",".join(binds), "APPTAINER_PID": "1"}


def own_temporary(work: Path) -> dict[str, str]:
    """Make folders below ``work`` in the place of /tmp and /var/tmp, and map these to them."""
    folders = {}
    for place in TEMPORARY:
        own = work / place.strip("/").replace("/", "-")
        own.mkdir(mode=0o1777, exist_ok=True)
        folders[place] = str(own)
    return folders


def remove_left(folder: Path) -> list[str]:
    """Remove the temporary folders of dead builds; return their names."""
    gone = []
    for left in folder.glob(f"{_BEGIN}*"):
        try:
            with (left / _LOCK).open("r+") as lock:
                dead = _held(lock.fileno())
        except FileNotFoundError:
            dead = _age(left) > _NO_LOCK  # killed before its lock, or just about to make it
        except OSError:
            dead = _age(left) > _STALE
        if dead:
            remove_tree(left)
            gone.append(left.name)
    return gone


def _age(path: Path) -> float:
    """Return the seconds since ``path`` changed; 0 if it is gone meanwhile."""
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def remove_tree(path: Path) -> None:
    """Remove a folder, even with directories that nobody may write to or enter, as in images."""
    for directory, names, _ in os.walk(path):
        for name in names:
            below = Path(directory) / name
            if not below.is_symlink():
                with suppress(OSError):
                    below.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def check_space(folder: Path, needed: int) -> None:
    """Raise CouldNotRun if fewer than ``needed`` bytes are free where ``folder`` is."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CouldNotRun(full(folder, needed))


def full(folder: Path, needed: int) -> str:
    """Return the sentence for a file system without room; ``needed`` in bytes."""
    free = shutil.disk_usage(folder).free
    return (
        f"There is no space left in '{folder}': the build needs about {size_words(needed)}, and "
        f"{size_words(free)} is free. Old images can be removed with `portal images prune`."
    )


def is_full(error: OSError) -> bool:
    """Return True if the error is a file system without room, or a quota."""
    return error.errno in _FULL


def size_words(count: int) -> str:
    """Format bytes for people: "1.5 GiB", "300 MiB"."""
    if count >= _GIB:
        return f"{count / _GIB:.1f} GiB"
    return f"{count / 1024**2:.0f} MiB"


def _held(descriptor: int) -> bool:
    """Take the lock; return False if another build has it. Raises OSError if locks fail."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
