"""``api/v1/session/endpoint``: what a replica reports, with its session's own token."""

from __future__ import annotations

import ssl
import time
from typing import Any

from portal.errors import InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import OwnSession

from .bodies import Known, Reported
from .kind import ServingReplica
from .parts import EndpointParts
from .tables import EndpointReplicaTable


class OwnReplica(OwnSession):
    """Replica of an endpoint that asks."""

    path = "session/endpoint"

    @Operation("Report a replica of an endpoint.", body=Reported)
    async def on_put(self) -> Known:
        """Use the session's own token only. A replica that answers is tried with the version's
        example before it gets requests."""
        body: Reported = self.body
        record = await self.own_record()
        if record.work != ServingReplica.name:
            raise NotAllowed("This session is not a replica of an endpoint.")
        table = self.parts.store.table(EndpointReplicaTable)
        id_ = str(record.options.get(ServingReplica.option, {}).get("id", ""))
        try:
            row = await table.get(record.user, id_)
        except NotFound:  # its endpoint was deleted
            return Known(draining=True)
        if row.ended_at is not None or row.job_id not in ("", record.job_id):
            raise NotAllowed("This replica was launched as another job.")
        check_certificate(body.certificate)
        told: dict[str, Any] = {
            "job_id": record.job_id,
            "port": body.port,
            "certificate": body.certificate,
        }
        if not body.ready or (row.port, row.certificate) != (body.port, body.certificate):
            told |= {"answered_at": None, "ready_at": None}  # it must answer the example again
        if body.ready and told.get("answered_at", row.answered_at) is None:
            told["answered_at"] = time.time()
        if any(getattr(row, field) != value for field, value in told.items()):
            await table.change(row.user, row.id, **told)
            self.parts_for(EndpointParts).keeper.changed.set()
        return Known(draining=row.draining_at is not None)


def check_certificate(text: str) -> None:
    """Raise InvalidRequest for what is no certificate as PEM: the gateway trusts it alone."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise InvalidRequest("'certificate' must be a certificate (PEM).", "certificate") from None


ENDPOINTS = (OwnReplica,)
