"""Owners of endpoints who left: the Hub does not know them any more, or they may not sign in."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from portal.models.audit import AuditEntry, Outcome
from portal.periodic import Periodic
from portal.store import Store

from ..audit import EndpointAudit
from ..tables import EndpointTable

_EVERY = 300.0  # seconds
_ACTOR = "the portal"


class Hub(Protocol):
    """Part of the Hub's API that this needs."""

    async def may_log_in(self, user: str) -> bool:
        """Return False if this user can no longer log in. Raises HubUnavailable."""


class Owners:
    """Loop of the service that asks the Hub about all owners. An endpoint whose owner is in
    ``gone`` gets no replicas. The audit log tells admins, through ``note``; ``changed`` is called
    then."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        note: Callable[[AuditEntry], Awaitable[object]],
        changed: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._store, self._hub, self._note = store, hub, note
        self._changed, self._log = changed, log
        self.gone: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Ask until cancelled."""
        await Periodic(
            "The check of owners of endpoints", lambda: self.ask_hub(time.time()), _EVERY, self._log
        ).run()

    async def ask_hub(self, now: float) -> None:
        """Ask about each owner at ``now`` (Unix seconds). While the Hub does not answer, what was
        known holds. Raises HubUnavailable, StoreUnavailable."""
        endpoints = await self._store.table(EndpointTable).every()
        users = sorted({endpoint.user for endpoint in endpoints})
        gone = frozenset([user for user in users if not await self._hub.may_log_in(user)])
        new, self.gone = gone - self.gone, gone
        self._changed()
        for endpoint in endpoints:
            # Once: after a restart of the service, the endpoint says so already.
            if endpoint.user in new and endpoint.problem != words_of(endpoint.user):
                entry = AuditEntry(
                    at=now,
                    actor=_ACTOR,
                    action=EndpointAudit.STOP_ENDPOINT,
                    target=f"endpoint {endpoint.name}",
                    owner=endpoint.user,
                    outcome=Outcome.DONE,
                    detail=words_of(endpoint.user),
                )
                await self._note(entry)


def words_of(user: str) -> str:
    """Return why endpoints of a user have no replicas."""
    return f"It was stopped: its owner {user} may no longer sign in."
