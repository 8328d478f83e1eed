"""Outcome of a backup in the portal's audit log: admins read it there, and metrics have its age."""

from __future__ import annotations

import asyncio
import getpass
import sys
import time
from pathlib import Path

from portal.doctor.site import Site
from portal.errors import PortalError
from portal.models.audit import AuditAction, AuditEntry, Outcome
from portal.store import Store


def note_outcome(site: Site, target: Path, error: PortalError | None) -> None:
    """Record the backup into ``target``, which ``error`` has ended. Raises nothing: the backup is
    what counts."""
    entry = AuditEntry(
        at=time.time(),
        actor=getpass.getuser(),
        action=AuditAction.BACK_UP,
        target=str(target)[:300],
        outcome=Outcome.FAILED if error else Outcome.DONE,
        detail=error.message[:1000] if error else "",
    )
    try:
        asyncio.run(_add(site, entry))
    except PortalError as problem:
        print(f"The audit log has no entry of this backup: {problem.message}", file=sys.stderr)


async def _add(site: Site, entry: AuditEntry) -> None:
    store = Store(config=site.config, log=site.log)
    try:
        if not store.database.address.missing:
            await store.audit.add_entry(entry)
    finally:
        await store.close()
