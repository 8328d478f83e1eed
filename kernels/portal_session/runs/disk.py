"""Files of runs: files that others may have named or placed, and errors as sentences."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

_UID_MAP, _UNMAPPED = Path("/proc/self/uid_map"), Path("/proc/sys/kernel/overflowuid")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def open_regular(path: Path | str, *, own: bool = False, folder: int | None = None) -> IO[bytes]:
    """Open a file to read it; a FIFO or a device, which could hold the reader, is refused. ``own``:
    so are links and files of other users; ``folder``: the open folder in which ``path`` is. Raises
    OSError."""
    # Without O_NONBLOCK, the open itself waits for a FIFO's writer (open(2)).
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if own else 0)
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "It is not a regular file", str(path))
        if own and about.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "It belongs to another user", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int, *, own: bool = False) -> bytes:
    """Return a file's first ``most`` + 1 bytes, as `open_regular` opens it. Raises OSError."""
    with open_regular(path, own=own) as file:
        return file.read(most + 1)


def strangers_may_replace(folder: Path) -> bool:
    """Return True if users who share nothing with this one may put something else in the place of
    ``folder`` or of what is in it: a folder of its path may be written by all, without the sticky
    bit, which keeps what is there for its owner, or its owner or that of the next one is another
    user. Raises OSError."""
    below: Path | None = None
    for place in (folder, *folder.parents):
        mode = place.stat().st_mode
        if mode & stat.S_IWOTH:
            trusted = _is_trusted(place.resolve()) and (below is None or _is_trusted(below))
            if not mode & stat.S_ISVTX or not trusted:
                return True
        below = place
    return False


def _is_trusted(place: Path) -> bool:
    """Return True if a folder or link is this user's or root's. In a container, root's may appear
    as nobody's, as other users' do (user_namespaces(7)): a folder that is sticky, or in which this
    user cannot write, is root's then."""
    about = place.lstat()
    if about.st_uid in (os.geteuid(), 0):
        return True
    mapped = _UID_MAP.read_text().split()
    if mapped == ["0", "0", "4294967295"] or about.st_uid != int(_UNMAPPED.read_text()):
        return False
    return bool(about.st_mode & stat.S_ISVTX) or not os.access(place, os.W_OK)


def reason(error: OSError) -> str:
    """Return why a file was not written, up to the full stop, and what to do about a full disk."""
    why = f"{error.strerror or error}."
    if error.errno not in _FULL:
        return why
    return f"{why} Delete files that you do not need, then run it again."
