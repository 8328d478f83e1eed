"""Folder of backups: one maker at a time, errors in words, and removal of the old."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from portal import disk
from portal.errors import Conflict, InvalidRequest, PortalError, StoreUnavailable

NAME = "portal-backup-%Y-%m-%dT%H%M%SZ.tar"
_NAMES = re.compile(r"portal-backup-\d{4}-\d\d-\d\dT\d{6}Z\.tar")


def keep_newest(folder: Path, number: int) -> list[Path]:
    """Remove older backups in ``folder`` than the ``number`` newest; return them. Raises
    PortalError."""
    with locked(folder), in_words(folder):
        paths = sorted(path for path in folder.iterdir() if _NAMES.fullmatch(path.name))
        older = paths[:-number]
        for path in older:
            path.unlink()
        return older


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock out other backups into the same folder. Raises Conflict, InvalidRequest."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidRequest(f"{folder} cannot be opened: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"Another backup is being made in {folder} now.") from None
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def in_words(folder: Path) -> Iterator[None]:
    """Turn errors of the system into sentences. Raises PortalError."""
    try:
        yield
    except OSError as error:
        if disk.no_space(error):
            raise _full(folder) from None
        raise InvalidRequest(
            f"No backup can be made in {folder}: {error.strerror or error}. Nothing was left there."
        ) from None
    except StoreUnavailable as error:
        if re.search(r"(disk is full|No space left)", error.message):
            raise _full(folder) from None
        raise


def _full(folder: Path) -> PortalError:
    return disk.DiskFull(
        f"{folder} has no space left ({os.strerror(errno.ENOSPC)}): nothing was left there. A "
        "backup needs the size of both databases twice while it is made."
    )
