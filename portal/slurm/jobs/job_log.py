"""The log of a job: a file that the portal creates, the job appends to, and only the portal reads.

In a folder open to everyone, a person could create another's log beforehand: read it, fill it, or
hang slurmstepd on a FIFO. So the portal's account creates the file; slurmstepd opens it for
appending as the job's user (sbatch(1) --output, --open-mode=append). Its name is no secret once
the job exists (scontrol(1) show job, StdOut), so an ACL lets only the job's account write to it.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import stat
from pathlib import Path

from portal import acl


def prefix_of(secret: bytes) -> str:
    """Return the beginning of the names of a Hub's logs, of the secret that signs its cookies."""
    return f"session-{hashlib.sha256(b'logs' + secret).hexdigest()[:8]}" if secret else "session"


def make_log(directory: str, what: str, account: str) -> str:
    """Create an empty log in ``directory`` for a job of ``account``; return its name, which begins
    with ``what``.

    If the file system has no POSIX ACLs, or this machine does not know the account, everybody who
    knows the name may append. Blocks: call it in a thread. Raises OSError if this account cannot
    write there.
    """
    name = f"{what}-{secrets.token_urlsafe(16)}.log"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    descriptor = os.open(Path(directory) / name, flags, 0o600)
    try:
        try:
            uid = pwd.getpwnam(account).pw_uid
            if uid != os.geteuid():
                acl.give(descriptor, acl.READ | acl.WRITE, {uid: acl.WRITE})
        except (KeyError, acl.NoAcls):
            os.fchmod(descriptor, 0o622)
    finally:
        os.close(descriptor)
    return name


def read_log(path: Path, offset: int, most: int) -> tuple[bytes, int]:
    """Return at most ``most`` bytes of a log from ``offset`` on, and the log's size; b"" and 0 if
    it cannot be read or is not the file that the portal created. Blocks."""
    try:
        # O_NONBLOCK: opening a FIFO would wait for a writer; O_NOFOLLOW: a link may point anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b"", 0
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return b"", 0
        if offset >= status.st_size:
            return b"", status.st_size
        return os.pread(descriptor, most, offset), status.st_size
    except OSError:
        return b"", 0
    finally:
        os.close(descriptor)
