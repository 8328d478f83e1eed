"""Free space of the disks that the portal writes to, space reserved for its databases, and names
that survive a crash."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path

from .errors import Unavailable

ROOM = 8 * 1024 * 1024
"""Bytes reserved in a database of SQLite: some thousand changes of a session's state."""

LEAST = 32 * 1024 * 1024
"""Free bytes below which nothing new is started: a session's log and end could not be kept."""

FULL = (
    "The portal's disk is full. Running sessions continue, and can be opened and stopped; nothing "
    "new starts until an admin has made space: `portal doctor --only=disk` names the disk."
)
_PAGES = 256  # of SQLite in one row; a page has 4096 bytes


class DiskFull(Unavailable):
    """Lack of disk space for the request."""

    code = "disk_full"
    status = 507

    def __init__(self, message: str = FULL) -> None:
        super().__init__(message)


def no_space(error: object) -> bool:
    """Return True if ``error`` says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def free(path: Path | str) -> int | None:
    """Return the bytes that this account may still write at ``path``, which need not exist; None
    if unknown. Blocks: a network file system may take its time."""
    place = Path(path).absolute()
    for folder in (place, *place.parents):
        try:
            return shutil.disk_usage(folder).free
        except (FileNotFoundError, NotADirectoryError):
            continue  # it will be created
        except OSError:
            break
    return None


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name in it survives a crash of the machine (fsync(2)). Blocks.
    Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def ensure_space(*paths: Path | str) -> None:
    """Raise DiskFull if one of ``paths`` has less than LEAST bytes free. Blocks."""
    for path in paths:
        left = free(path)
        if left is not None and left < LEAST:
            raise DiskFull


def keep_room(database: Path, room: int = ROOM) -> bool:
    """Reserve ``room`` unused bytes in a file of SQLite, so that it takes changes when the disk is
    full; return whether it has them. It must have a write-ahead log and be open. Blocks.

    Pages of a dropped table stay in the file (sqlite.org/fileformat.html, "The Freelist"), and a
    log keeps its size while the database is open (sqlite.org/wal.html).
    """
    try:
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
            return _keep_room(connection, room)
    except sqlite3.Error:  # it is locked, or there is no space for it now
        return False


def _keep_room(connection: sqlite3.Connection, room: int) -> bool:
    connection.execute("DROP TABLE IF EXISTS portal_room")  # of an interrupted attempt
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (spare,) = connection.execute("PRAGMA freelist_count").fetchone()
    if spare * size >= room // 2:
        return True
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE portal_room (bytes BLOB)")
    for _ in range(room // (_PAGES * size)):
        connection.execute("INSERT INTO portal_room VALUES (randomblob(?))", (_PAGES * size,))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.execute("DROP TABLE portal_room")
    return True
