"""Publication of a file that was written under another name: it gets its own once it is whole."""

from __future__ import annotations

import errno
import os

# What link(2) fails with where a file system has no hard links, or a mount is in between.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


def publish(file: int, part: str, name: str, folder: int) -> None:
    """Name the open ``file``, which is ``part`` in the open ``folder``, ``name`` instead. Raises
    FileExistsError if that is taken, and OSError."""
    try:
        # Of the open file, as for O_TMPFILE in open(2); given one, linkat follows links.
        os.link(f"/proc/self/fd/{file}", name, src_dir_fd=file, dst_dir_fd=folder)
        os.unlink(part, dir_fd=folder)
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    claim = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.close(os.open(name, claim, 0o600, dir_fd=folder))
    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
