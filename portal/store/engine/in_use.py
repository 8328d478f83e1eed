"""Use of the Hub's database: any Hub holds a lock on it together with others, a restore alone. The
system releases a lock when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

NUMBER = 7_075_674_108  # any other number than upgrade's (pg_advisory_xact_lock)


def hold(database: Path, *, alone: bool) -> int | None:
    """Lock SQLite's file; return the descriptor that holds the lock until it is closed, None if
    another process holds one. Raises OSError.

    The lock is on a file beside it: the database is replaced by a restore, and closing a copy of
    its descriptor would drop SQLite's own locks.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(database.with_name(database.name + ".in-use"), flags, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
