"""Base class of what people do with endpoints: theirs, and those that they may use."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from typing import Any

from portal.catalog.versions.pins import Pin, PinLost, pin_of, pinned
from portal.errors import InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Action
from portal.handlers.catalog.environments import as_seen_by_catalog
from portal.handlers.sessions.job_estimates import JobEstimates
from portal.models.person import Person
from portal.models.session.session import SessionRecord
from portal.models.space import StoredSpace

from .bodies import (
    OF_VERSION,
    EndpointDetail,
    WantedVersion,
)
from .catalog.items import ModelView
from .details import detail_of
from .keeping.scaling import with_share
from .keeping.spaces import barred, working_in
from .kind import ServingReplica
from .models import NAME, Endpoint, EndpointVersion, exposed
from .parts import EndpointParts
from .tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

_NONE = "You have no such endpoint."


def usable_by(person: Person, endpoint: Endpoint, projects: Collection[str]) -> bool:
    """Return True if the person, who works in ``projects``, may use the endpoint."""
    named = person.name == endpoint.user or person.name in endpoint.users
    shared = {endpoint.project, *endpoint.projects} & set(projects)
    in_group = bool(set(person.groups) & set(endpoint.groups))
    return named or endpoint.everyone or in_group or bool(shared)


class EndpointAction(Action, JobEstimates):
    """Base class: the endpoints of the person who asks."""

    parameters = {"name": NAME}
    kind = ServingReplica

    @property
    def table(self) -> EndpointTable:
        """Table of endpoints."""
        return self.parts.store.table(EndpointTable)

    @property
    def versions(self) -> EndpointVersionTable:
        """Table of versions."""
        return self.parts.store.table(EndpointVersionTable)

    @property
    def replicas(self) -> EndpointReplicaTable:
        """Table of replicas."""
        return self.parts.store.table(EndpointReplicaTable)

    async def owned(self, name: str, needs: str = "") -> Endpoint:
        """Return an endpoint of the person, or any if they hold the scope ``needs``. Raises
        NotFound for one that they may not know of, NotAllowed for one that they may use only."""
        with contextlib.suppress(NotFound):
            found = await self.table.get(name)
            if found.user == self.person.name or (needs and self.may(needs)):
                return found
            if usable_by(self.person, found, await self.projects()):
                raise NotAllowed(f"The endpoint '{name}' belongs to {found.user}.")
        raise NotFound(_NONE)

    async def projects(self) -> frozenset[str]:
        """Return the projects in which the person works."""
        return working_in(await self.parts.memberships.mine(self.person.name))

    async def for_project(self, name: str) -> StoredSpace | None:
        """Return the project for which the person may serve; None for "". Raises NotAllowed."""
        if not name:
            return None
        membership = await self.parts.memberships.membership(self.person.name, name)
        if reason := barred(membership.stored, membership.role, "You are", time.time()):
            raise NotAllowed(reason, "project")
        return membership.stored

    def check_offered(self) -> None:
        """Raise NotAllowed if the site has no gateway."""
        if not self.endpoint_parts.gateway.offered:
            raise NotAllowed("Endpoints are not offered on this site (PORTAL_GATEWAY_STATE).")

    @property
    def endpoint_parts(self) -> EndpointParts:
        """Objects for endpoints."""
        return self.parts_for(EndpointParts)

    def address(self, name: str) -> str:
        """Return the path of an endpoint at the portal's host."""
        return f"{self.parts.prefix}models/{name}/"

    async def detail(self, endpoint: Endpoint) -> EndpointDetail:
        """Return an endpoint with its versions and replicas."""
        view = self.parts.dashboard.view
        return detail_of(
            endpoint,
            self.address(endpoint.name),
            await self.versions.of_endpoint(endpoint.name),
            await self.replicas.of_endpoint(endpoint.name),
            await self.records(endpoint.user),
            view.snapshot.jobs if view is not None else {},
            time.time(),
        )

    def catalog_view(self) -> ModelView:
        """Return the catalog of models for the person."""
        parts = self.parts
        return ModelView(self.endpoint_parts.models, parts.catalog, parts.store, self.person)

    async def add_version(
        self, endpoint: Endpoint, body: WantedVersion, source: dict[str, Any]
    ) -> EndpointVersion:
        """Add a version as a launch is decided, and have it launched. Raises InvalidRequest,
        NotAllowed, SlurmUnavailable."""
        name = endpoint.name
        for field in ("environment", "command"):
            if not getattr(body, field):
                raise InvalidRequest(
                    f"'{field}' is missing. Only a model of the catalog ('source') needs none.",
                    field,
                )
        if problem := exposed(body.command):
            raise InvalidRequest(problem, "command")
        if body.nodes not in (None, 1):
            raise InvalidRequest("'nodes' must be 1: a replica is a job on one node.", "nodes")
        resources = body.model_dump(exclude=set(OF_VERSION), exclude_unset=True)
        options = {**resources, "environment": body.environment}
        self.stored = await self.for_project(endpoint.project)
        await self.decided(as_seen_by_catalog(self.person), options)
        pin = await self._pin(body)
        version = EndpointVersion(
            endpoint=name,
            number=0,
            created_at=time.time(),
            source=source,
            environment=body.environment,
            environment_version=pin.version,
            digest=pin.digest,
            command=body.command,
            health=body.health,
            folder=body.folder,
            paths=body.paths,
            example=body.example.model_dump(exclude_none=True) if body.example else {},
            resources=resources,
        )
        added = await self.versions.add_version(version)
        shares = {int(number): share for number, share in endpoint.shares.items()}
        shares = with_share(shares, added.number, body.share)
        await self.table.change(name, shares={str(k): v for k, v in shares.items()}, problem="")
        self.endpoint_parts.keeper.wake(name)
        return added

    async def _pin(self, body: WantedVersion) -> Pin:
        """Return the pin of the environment. Raises InvalidRequest for a version that is gone."""
        parts, number = self.parts, body.environment_version
        pin = await pin_of(parts.catalog, parts.store, body.environment)
        if number in (0, pin.version):
            return pin
        known = parts.catalog.visible_to(as_seen_by_catalog(self.person))
        environment = next(each for each in known if each.name == body.environment)
        try:
            earlier = await pinned(parts.catalog, parts.store, environment, number)
        except PinLost as error:
            raise InvalidRequest(
                f"{error.what} Choose the current version.", "environment_version"
            ) from None
        return Pin(number, earlier.digest or "")

    async def records(self, user: str) -> dict[str, SessionRecord]:
        """Return the user's living sessions by server."""
        records, _ = await self.parts.store.sessions.find(user=user, ended=False, limit=1000)
        return {record.server: record for record in records}
