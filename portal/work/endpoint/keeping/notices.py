"""Mail to the owner of an endpoint before a replica ends whose successor still waits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from portal.notices import Notices
from portal.notices.post import Mail, MailQueue
from portal.notices.words import one_line
from portal.store import Store

from ..models import Endpoint, EndpointReplica
from ..tables import EndpointReplicaTable
from .handover import MARGIN, Replica, ReplicaState


class EndpointNotices:
    """Mails about successors that come too late, each sent once."""

    def __init__(self, notices: Notices, store: Store, log: logging.Logger) -> None:
        self._post, self._store = MailQueue(notices, log), store

    async def send_late(
        self,
        endpoint: Endpoint,
        replicas: Sequence[Replica],
        rows: Mapping[str, EndpointReplica],
        load: float,
        now: float,
    ) -> None:
        """Send what is due at ``now`` (Unix seconds). Raises StoreUnavailable."""
        if not self._post.on:
            return
        for replica, ends_at in late(replicas, load, now):
            row, key = rows[replica.id], f"endpoint-{replica.id}"
            if row.told_at is not None or self._post.waits(key):
                continue
            minutes = max(1, round((ends_at - now) / 60))
            name = one_line(endpoint.name)
            mail = Mail(
                key,
                endpoint.user,
                f"Your endpoint '{name}' may pause in {minutes} min",
                [
                    f"A replica of '{name}' reaches the time limit of its job in {minutes} min, "
                    "and the job of its successor still waits in the queue. Requests that no other "
                    "replica answers then wait, and are refused with status 503 and the expected "
                    "start.",
                    f"State: {self._post.pages}endpoints/{endpoint.name}",
                ],
            )
            if await self._post.send(mail, now) is not None:
                table = self._store.table(EndpointReplicaTable)
                await table.change(row.user, row.id, told_at=now)


def late(replicas: Sequence[Replica], load: float, now: float) -> list[tuple[Replica, float]]:
    """Return the successors that still wait though there is hardly the time to load, each with the
    end of its predecessor (Unix seconds)."""
    ends = {replica.id: replica.ends_at for replica in replicas}
    found = []
    for replica in replicas:
        ends_at = ends.get(replica.successor_of)
        if replica.state is ReplicaState.WAITING and ends_at is not None:
            if ends_at - now < load + MARGIN:
                found.append((replica, ends_at))
    return found
