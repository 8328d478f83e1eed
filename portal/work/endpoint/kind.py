"""Replica of an endpoint: its program answers requests of the gateway.

The job opens no port for the Hub, and the Hub sees no server. It gets the gateway's certificate,
and makes a key of its own: no secret is in its variables.
"""

from __future__ import annotations

import json

from portal.errors import Conflict, NotAllowed
from portal.launch.kinds.kind import AskedFor, KindWords, LaunchFacts, Lookup, Place
from portal.models.space import Space
from portal.work.kernel.settings import JobKernels
from portal.work.replicas.kind import ReplicaKind

from .tables import EndpointReplicaTable


class ServingReplica(ReplicaKind):
    """Replica of ``endpoint``, as the portal has recorded it (`EndpointReplica`)."""

    name = "endpoint"
    title = "a replica of an endpoint"
    option = "endpoint"
    prefix = "ep"
    module = "portal_session.serving.starter"
    of_users = False
    of_portal = ReplicaKind.of_portal | {
        "endpoint",
        "version",
        "argv",
        "health",
        "start",
        "gateway",
        "ports",
    }
    words = KindWords(
        noun="replica",
        program="program",
        shut_down="The replica has ended: another one took its place, or none is needed.",
        longer="Choose a longer time limit for the endpoint.",
    )

    endpoint: str = ""
    version: int = 0
    argv: tuple[str, ...] = ()
    health: str = ""
    start: str = ""  # the folder in which the program starts
    gateway: str = ""
    ports: str = ""

    @classmethod
    def not_offered(cls, space: Space) -> str:
        return f"Endpoints are not offered in a {space.noun}."

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        replica = await hub.recorded(EndpointReplicaTable, self.id)
        if replica is None or self.number:  # each is a set of one
            raise NotAllowed("The portal has not recorded this replica of an endpoint.")
        if replica.job_id:
            raise Conflict("This replica has been launched. Another one takes its place.")
        if asked.environment != replica.environment:
            raise NotAllowed(f"This replica must have the environment '{replica.environment}'.")
        place = await super().place(asked, hub, facts)
        environments = dict(place.environments)
        chosen = environments.get(asked.environment or "")
        if chosen is not None and replica.environment_version:
            pinned = await hub.pinned(chosen, replica.environment_version)
            environments[chosen.name] = pinned
        known = {
            "endpoint": replica.endpoint,
            "version": replica.version,
            "argv": replica.command,
            "health": replica.health,
            "start": replica.folder,
            "gateway": replica.gateway,
            "ports": hub.settings(JobKernels).ports,
        }
        kind = place.kind.model_copy(update=known)
        return place._replace(environments=environments, kind=kind)

    def variables(self) -> dict[str, str]:
        program = {
            "id": self.id,
            "name": self.endpoint,
            "version": self.version,
            "argv": list(self.argv),
            "folder": self.start,
            "health": self.health,
        }
        return {
            **super().variables(),
            "PORTAL_ENDPOINT": json.dumps(program),
            "PORTAL_ENDPOINT_GATEWAY": self.gateway,
            "PORTAL_ENDPOINT_PORTS": self.ports,
        }
