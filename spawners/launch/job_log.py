"""Log of a session's job (portal/slurm/jobs/job_log.py)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from jupyterhub.app import JupyterHub

from portal import disk
from portal.errors import ConfigurationError
from portal.sessions.log import tail
from portal.slurm.jobs import job_log


async def make_log(directory: str, account: str) -> str:
    """Make an empty log in ``directory`` for a job of ``account``; return its name.

    Raises ConfigurationError if the Hub's account cannot write there, and DiskFull if the
    log's disk, or the one of the Hub's own directory, has no room for what a session writes.
    """
    try:
        return await asyncio.to_thread(_make, directory, account)
    except OSError as error:
        raise ConfigurationError(
            f"The log of the session cannot be created in {directory}: {error.strerror}. An "
            "admin can check with 'portal doctor'."
        ) from None


def _make(directory: str, account: str) -> str:
    disk.ensure_space(directory, Path.cwd())
    return job_log.make_log(directory, log_prefix(), account)


def log_prefix() -> str:
    """Return the beginning of the names of this Hub's logs, by which its jobs differ from those of
    another portal on the same Slurm: of the secret that signs its cookies, which is no part of its
    database."""
    secret = JupyterHub.instance().cookie_secret if JupyterHub.initialized() else b""
    return job_log.prefix_of(secret)


async def log_tail(directory: str, name: str) -> str:
    """Return the end of a log as text; "" if there is none."""
    if not name:
        return ""
    return await asyncio.to_thread(tail, Path(directory) / name)
