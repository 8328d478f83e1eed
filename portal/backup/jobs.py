"""Report of the jobs that run after a restore, and of what the Hub will do with each: it knows
those of its database, and finds the others by the portal's mark (spawners/lifecycle/orphans.py)."""

from __future__ import annotations

import asyncio
import binascii
import json
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from portal.doctor.site import Site
from portal.errors import ConfigurationError, PortalError
from portal.models.cluster.array import array_id
from portal.models.cluster.cluster import Job
from portal.sessions.unknown_jobs import (
    Known,
    job_ids_of,
    orphan_jobs,
    served_by,
    server_of,
)
from portal.slurm.jobs.job_log import prefix_of
from portal.store import Store

from .account import acting_as
from .databases import hub_address

# JupyterHub's own tables (orm.py); the state is JSON.
_SPAWNERS = "SELECT u.name, s.name, s.state FROM spawners s JOIN users u ON u.id = s.user_id"


def jobs_after(site: Site, account: str) -> list[str]:
    """Return the report, a line for each job that the restored Hub does not know; a line that says
    why there is none, if that is so."""
    try:
        if site.trouble:
            raise ConfigurationError(site.trouble)
        known, recorded = _known(site, account)
        logs = f"{site.setting(site.spawner, 'log_directory')}/{prefix_of(_secret(site))}-"
        snapshot = asyncio.run(site.cluster.snapshot(jobs_only=True))
        if snapshot.error:
            raise ConfigurationError(snapshot.error)
    except (PortalError, SQLAlchemyError, OSError, ValueError) as error:
        reason = (error.message if isinstance(error, PortalError) else str(error)).rstrip(".")
        return [
            f"Jobs of sessions were not compared with the restored databases ({reason}). The Hub "
            "does that within a minute of its start; its log names those that it does not know."
        ]
    return report(snapshot.jobs, known, recorded, logs, time.time())


def report(
    jobs: Mapping[str, Job], known: Known, recorded: Collection[str], logs: str, now: float
) -> list[str]:
    """Return the lines. ``known``: to the Hub's database; ``recorded``: ids of jobs that the
    portal's has; ``logs``: the beginning of the paths of this Hub's logs; ``now``: Unix seconds."""
    served = served_by(known, jobs)
    unknown = orphan_jobs(jobs.values(), known, logs, now + 1)
    ours = {
        array_id(job.id)
        for job in jobs.values()
        if server_of(job, logs) is not None and not job.state.ended
    }
    lines = [f"{len(ours & {*known.jobs})} jobs of sessions run or wait that the Hub knows."]
    if unknown:
        lines.append(f"{len(unknown)} jobs are newer than the backup:")
    for job in unknown:
        id_, server = array_id(job.id), server_of(job, logs) or ""
        name = f"  Job {id_} of {job.user}, session '{server}'"
        if (job.user, server) in served and id_ not in recorded:
            lines.append(f"{name}: the Hub cancels it at its start: that session has another job.")
        else:
            lines.append(
                f"{name}: the Hub shows it on the Sessions page. Nobody can open it any more; its "
                "user, or an admin, ends it there."
            )
    return lines


def _known(site: Site, account: str) -> tuple[Known, set[str]]:
    """Return what the Hub's database knows, and the jobs of the sessions in the portal's."""
    ids: set[str] = set()
    own: set[tuple[str, str, str]] = set()
    address = hub_address(site.of_hub("db_url"))
    engine = address.engine(10, 1)
    with acting_as(account):
        try:
            with engine.connect() as connection:
                for user, server, text_of_state in connection.execute(text(_SPAWNERS)):
                    state = json.loads(text_of_state or "{}")
                    ids |= job_ids_of(state)
                    if isinstance(state, dict) and state.get("job_id"):
                        own.add((user, server, str(state["job_id"])))
        finally:
            engine.dispose()
        recorded = asyncio.run(_recorded(Store(config=site.config, log=site.log)))
    return Known(ids, (), own), recorded


async def _recorded(store: Store) -> set[str]:
    try:
        return {record.job_id for record in await store.sessions.living()}
    finally:
        await store.close()


def _secret(site: Site) -> bytes:
    """Return the secret that signs the Hub's cookies, by which it knows its jobs' logs. Raises
    OSError, ValueError."""
    text = (
        os.environ.get("JPY_COOKIE_SECRET") or Path(site.of_hub("cookie_secret_file")).read_text()
    )
    return binascii.a2b_hex(text.strip())
