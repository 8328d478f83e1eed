"""Folders of uploads. Others may write to the folders above: a link of another user's is not
followed, or a member of a project could lead an upload into the user's own settings."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from . import UploadError

_MOST_LINKS = 40  # as Linux follows (path_resolution(7))
_OPEN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OVERFLOW = Path("/proc/sys/kernel/overflowuid")


def open_folder(path: Path, links: bool = True) -> int:
    """Return a descriptor of the folder at an absolute path, by which files in it are reached.
    ``links``: those of this user and of root are followed. Raises UploadError, OSError."""
    left, followed = list(reversed(path.parts[1:])), 0
    folder = os.open("/", _OPEN | os.O_DIRECTORY)
    try:
        while left:
            entry = os.open(left.pop(), _OPEN, dir_fd=folder)
            about = os.fstat(entry)
            if not stat.S_ISLNK(about.st_mode):
                os.close(folder)
                folder = entry
                continue
            try:
                followed += 1
                if not links or followed > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if about.st_uid not in (os.geteuid(), 0, _unmapped()):
                    raise UploadError(
                        f"{path} leads over a link that another user has made. Name the folder "
                        "itself.",
                        403,
                    )
                target = Path(os.readlink("", dir_fd=entry))
            finally:
                os.close(entry)
            if target.is_absolute():
                os.close(folder)
                folder = os.open("/", _OPEN | os.O_DIRECTORY)
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except BaseException:
        os.close(folder)
        raise
    return folder


def real_path(folder: int) -> Path:
    """Return the path of an open folder, without links."""
    return Path(f"/proc/self/fd/{folder}").readlink()


def check_inside(path: Path, real: Path, project: Path | None) -> None:
    """Raise UploadError if a folder is named as one of the project's, and lies elsewhere. ``real``:
    its path without links."""
    if project is None or not Path(os.path.normpath(path)).is_relative_to(project):
        return
    if not real.is_relative_to(project.resolve()):
        raise UploadError(f"{path} leads out of the project's folder, to {real}.", 403)


def _unmapped() -> int:
    """Return the owner that root's files may have in a container (user_namespaces(7)). Outside of
    one it is nobody's, who makes no files."""
    return int(_OVERFLOW.read_text())
