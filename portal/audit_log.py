"""Writer of the audit log: to the database, and to the service's log."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from .errors import PortalError
from .models.audit import AuditedAction, AuditEntry, Outcome
from .store import Store
from .web.audit_rate_limit import AuditRateLimit


class AuditLog:
    """Audit log of the service. Nothing here raises: an entry is in the service's log in any case,
    so it is not lost while the database is away."""

    def __init__(self, store: Store, log: logging.Logger, allowance: AuditRateLimit) -> None:
        self._store, self._log, self.allowance = store, log, allowance

    async def audit(
        self,
        handler: Any,
        action: AuditedAction,
        target: str,
        *,
        owner: str = "",
        outcome: Outcome = Outcome.DONE,
        detail: str = "",
    ) -> bool:
        """Add an entry for the person of ``handler``; return False if it could not be written.

        Entries that anybody can cause without end (refused or failed actions, and actions on
        oneself) are rate-limited (``AuditRateLimit``); the rest is only counted.
        """
        actor = handler.person.name
        if outcome is not Outcome.DONE or owner == actor:
            missed = self.allowance.take(actor, time.monotonic())
            if missed is None:
                return True
            if missed:
                missing = f"{missed} entries before this one were suppressed (rate limit)."
                detail = f"{missing} {detail}".strip()
        entry = AuditEntry(
            at=time.time(),
            actor=actor,
            action=action,
            target=target[:300],
            owner=owner,
            outcome=outcome,
            detail=detail[:1000],
            address=origin(handler.request),
        )
        return await self.note(entry)

    async def note(self, entry: AuditEntry) -> bool:
        """Write an entry; return False if only the service's log has it."""
        self._log.warning("audit: %s", entry.model_dump_json(exclude={"id"}))
        try:
            await self._store.audit.add_entry(entry)
        except PortalError as error:
            self._log.error("The audit log could not be written: %s", error)
            return False
        return True


def origin(request: Any) -> str:
    """Return the origin of a request, by X-Forwarded-For: the last address is the one that the
    Hub's proxy saw; those before it come from a proxy of the site, or from the client itself.

    Tornado's ``remote_ip`` would trust an X-Real-Ip that any client can send.
    """
    addresses = re.sub(r"[^0-9A-Fa-f:., ]", "?", request.headers.get("X-Forwarded-For", ""))
    return addresses[-200:] or str(request.remote_ip or "")
