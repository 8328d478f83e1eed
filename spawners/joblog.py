"""The log of one job: a file that the Hub makes, the job appends to, and the Hub alone reads.

Were the folder open to everyone, a person could make another's log beforehand: read it, fill it,
or hang slurmstepd on a FIFO. So the Hub's account makes the file under a name nobody can guess;
slurmstepd opens it for appending as the job's user (sbatch(1) --output, --open-mode=append).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

from portal.errors import ConfigurationError
from portal.sessions.log import tail


async def make_log(directory: str) -> str:
    """Make an empty log in ``directory``; returns its name.

    Raises ConfigurationError when the Hub's account cannot write there.
    """
    name = f"session-{secrets.token_urlsafe(16)}.log"
    try:
        await asyncio.to_thread(_make, Path(directory) / name)
    except OSError as error:
        raise ConfigurationError(
            f"The log of the session cannot be made in {directory}: {error.strerror}. An admin can "
            "look with 'portal doctor'."
        ) from None
    return name


def _make(path: Path) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        # Whoever's job it is may append, and nobody but the Hub may read.
        os.fchmod(descriptor, 0o622)
    finally:
        os.close(descriptor)


async def log_tail(directory: str, name: str) -> str:
    """The end of a log as text; "" where there is none."""
    if not name:
        return ""
    return await asyncio.to_thread(tail, Path(directory) / name)
