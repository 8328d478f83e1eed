"""Replica of an endpoint: its program answers requests of the gateway.

The job opens no port for the Hub, and the Hub sees no server. It gets the gateway's certificate,
and makes a key of its own: no secret is in its variables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from portal.errors import Conflict, NotAllowed
from portal.launch.kinds.kind import (
    AskedFor,
    KindWords,
    LaunchFacts,
    Lookup,
    OtherLaunch,
    Place,
)
from portal.models.catalog.environment import Environment
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
        "successor_of",
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
    successor_of: str = ""  # the id of the replica whose place it takes

    @classmethod
    def not_offered(cls, space: Space) -> str:
        return "" if space.replicas else f"Endpoints are not offered in a {space.noun}."

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        replica = await hub.recorded(EndpointReplicaTable, self.id)
        if replica is None or self.number:  # each is a set of one
            raise NotAllowed("The portal has not recorded this replica of an endpoint.")
        if replica.job_id:
            raise Conflict("This replica has been launched. Another one takes its place.")
        if asked.environment != replica.environment:
            raise NotAllowed(f"This replica must have the environment '{replica.environment}'.")
        if self.space.name != replica.project:
            raise NotAllowed("The portal has recorded this replica for another project, or none.")
        known = {
            "endpoint": replica.endpoint,
            "version": replica.version,
            "argv": replica.command,
            "health": replica.health,
            "start": replica.folder,
            "gateway": replica.gateway,
            "ports": hub.settings(JobKernels).ports,
            "successor_of": replica.successor_of,
        }
        pinned = (await hub.environments()).get(replica.environment)
        if pinned is not None and replica.environment_version:
            pinned = await hub.pinned(pinned, replica.environment_version)
        place = await super(ServingReplica, self.model_copy(update=known)).place(asked, hub, facts)
        # Nothing is awaited after this: launches at the same moment would not see each other.
        environments = dict(place.environments)
        chosen = environments.get(replica.environment)
        if chosen is not None and pinned is not None:
            environments[chosen.name] = in_space(chosen, pinned) if self.space.name else pinned
        return place._replace(environments=environments)

    def succeeds(self, other: OtherLaunch) -> bool:
        own = other.options.get(self.option) if other.work == self.name else None
        known = own.get("id") if isinstance(own, Mapping) else None
        return bool(self.successor_of) and known == self.successor_of

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


def in_space(narrowed: Environment, pinned: Environment) -> Environment:
    """Return an environment that a space has ``narrowed``, with the software of one of its versions
    (``pinned``), on GPUs that both have."""
    both = [each for each in narrowed.gpu_types if each in pinned.gpu_types]
    types = (
        both
        if narrowed.gpu_types and pinned.gpu_types
        else [*(narrowed.gpu_types or pinned.gpu_types)]
    )
    numbers = [each.max_gpus for each in (narrowed, pinned) if each.max_gpus is not None]
    if narrowed.gpu_types and pinned.gpu_types and not both:
        numbers = [0]
    update = {"gpu_types": tuple(types), "max_gpus": min(numbers, default=None)}
    return narrowed.with_software(pinned).model_copy(update=update)
