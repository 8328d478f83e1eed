"""``python -m portal.demo.showcase add|remove``: the demo's past, written to its database or taken
out of it. Run by `portal demo`, as the account of the Hub."""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy import delete, select

import portal.work  # noqa: F401  adds the features
from portal.errors import PortalError
from portal.features import loaded
from portal.store import Store
from portal.store.sessions.sessions import sessions
from portal.store.sessions.usage_tables import days, groups, jobs
from portal.store.site.job_use import job_use

from .past import PREFIX, past


async def write_past(store: Store, now: float) -> None:
    """Write the past of a demo that begins ``now`` (Unix seconds). Raises PortalError."""
    for made in [past(now), *[await part.past(store, now) for part in loaded("demo")]]:
        await made.write(store)


async def remove(store: Store, before: float) -> None:
    """Delete all that ``add`` wrote ``before`` (Unix seconds). Raises StoreUnavailable."""
    ours = select(jobs.c.id).where(jobs.c.job_id.startswith(PREFIX))
    statements = (
        delete(sessions).where(sessions.c.id.startswith(PREFIX)),
        delete(job_use).where(job_use.c.job_id.startswith(PREFIX)),
        delete(days).where(days.c.job.in_(ours)),
        delete(groups).where(groups.c.job.in_(ours)),
        delete(jobs).where(jobs.c.job_id.startswith(PREFIX)),
        *(statement for part in loaded("demo") for statement in part.removal()),
    )
    await store.database.run(
        lambda to: [to.execute(statement) for statement in statements], write=True
    )
    await store.history.prune(before)
    await store.series.prune(before, before)


async def _run(action: str, url: str, at: float) -> None:
    store = Store(url=url)
    try:
        await (write_past if action == "add" else remove)(store, at)
    finally:
        await store.close()


def main(arguments: list[str]) -> int:
    """Run ``add|remove URL SECONDS``; return the exit status."""
    action, url, at = arguments
    try:
        asyncio.run(_run(action, url, float(at)))
    except PortalError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
