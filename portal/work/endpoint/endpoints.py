"""``api/v1/models``: a user's endpoints, their versions and shares of the traffic.

The models themselves answer at ``models/NAME/…``, in the gateway.
"""

from __future__ import annotations

import time
from typing import Any

from portal.errors import InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.models.scope import JOBS_MANAGE, SESSIONS_READ
from portal.work.replicas.parts import ReplicaParts
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

from .action import EndpointAction, usable_by
from .audit import EndpointAudit
from .bodies import (
    DeletionQuery,
    EndpointDetail,
    EndpointItem,
    EndpointList,
    EndpointsQuery,
    Source,
    WantedEndpoint,
    WantedShares,
    WantedVersion,
)
from .catalog.items import PREFIX, ModelView
from .details import endpoint_state, states_of
from .keeping.handover import ReplicaState
from .models import Endpoint, RequestLimits
from .reports import ENDPOINTS as REPORTS

_MOST = 50  # endpoints of a user


class Endpoints(EndpointAction):
    """Endpoints that the person has or may use."""

    path = "models"
    parameters = {}

    @Operation("List the endpoints that you have or may use.", query=EndpointsQuery)
    async def on_get(self) -> EndpointList:
        """Return them by name."""
        if self.query.all and not self.may(SESSIONS_READ):
            await self.refused("All endpoints.", SESSIONS_READ)
        states = states_of(await self.replicas.living())
        projects = await self.projects()
        return EndpointList(
            items=tuple(
                EndpointItem(
                    name=each.name,
                    owner=each.user,
                    project=each.project,
                    address=self.address(each.name),
                    state=endpoint_state(each, states[each.name]),
                    ready=states[each.name][ReplicaState.READY],
                    problem=each.problem,
                    mine=each.user == self.person.name,
                    active_at=each.active_at,
                )
                for each in await self.table.every()
                if self.query.all or usable_by(self.person, each, projects)
            )
        )


class OneEndpoint(EndpointAction):
    """Endpoint of the person."""

    path = "models/{name}"

    @Operation("Show one of your endpoints.")
    async def on_get(self, name: str) -> EndpointDetail:
        """Return it with its versions, its newest replicas, and the times by which a successor is
        launched."""
        return await self.detail(await self.owned(name, SESSIONS_READ))

    @Operation("Make or change an endpoint.", body=WantedEndpoint, errors=(409,))
    async def on_put(self, name: str) -> EndpointDetail:
        """Make it, without a version yet, or change what is named. The name is the site's: one that
        another user has is refused."""
        body: WantedEndpoint = self.body
        given = {field: getattr(body, field) for field in body.model_fields_set}
        user, target = self.person.name, f"endpoint {name}"
        async with self.audited(EndpointAudit.SET_ENDPOINT, target, user):
            self.check_offered()
            new = Endpoint(name=name, user=user, created_at=time.time())
            try:
                found = await self.owned(name)
            except NotFound:
                found = None
            wanted = (found or new).model_copy(update=given)
            if name.startswith(PREFIX) and found is None:
                raise NotAllowed(f"Names that begin with '{PREFIX}' are for tests of the catalog.")
            if found is not None and wanted.project != found.project:
                raise InvalidRequest(
                    "The project of an endpoint cannot be changed. Serve the model under a new "
                    "name.",
                    "project",
                )
            if found is None:
                await self.for_project(wanted.project)
            await self._check_shared(set(wanted.projects) - set(found.projects if found else ()))
            limit = self.parts_for(ReplicaParts).limits.per_user
            if wanted.least > wanted.most:
                raise InvalidRequest(
                    f"'least' ({wanted.least}) must not exceed 'most' ({wanted.most}).", "least"
                )
            if wanted.most > limit and "most" in given:
                raise NotAllowed(
                    f"'most' must be {limit} at most on this site (c.Replicas.per_user).", "most"
                )
            if found is None:
                own = [each for each in await self.table.every() if each.user == user]
                if len(own) >= _MOST:
                    raise NotAllowed(f"You have {_MOST} endpoints. Delete one first.")
                await self.table.add_endpoint(wanted)
            elif given:
                stored = wanted.model_dump(include=set(given))
                await self.table.change(name, **stored)
        self.endpoint_parts.keeper.changed.set()
        return await self.detail(await self.table.get(name))

    async def _check_shared(self, projects: set[str]) -> None:
        """Raise NotAllowed for a project in which the person does not work."""
        if strange := sorted(projects - await self.projects()):
            raise NotAllowed(
                f"There is no project '{strange[0]}' of which you are a member.", "projects"
            )

    @Operation("Delete an endpoint.", query=DeletionQuery)
    async def on_delete(self, name: str) -> Confirmation:
        """Its replicas get no new requests and are stopped; versions and address are gone. One of
        another user takes the right to stop sessions, and a reason."""
        target, reason = f"endpoint {name}", self.query.reason.strip()
        endpoint = await self.owned(name, JOBS_MANAGE)
        async with self.audited(EndpointAudit.DELETE_ENDPOINT, target, endpoint.user, reason):
            if endpoint.user != self.person.name and not reason:
                raise InvalidRequest(
                    f"Say why: the endpoint '{name}' belongs to {endpoint.user}.", "reason"
                )
            await self.table.remove(name)
        self.endpoint_parts.keeper.changed.set()
        return Confirmation(message="The endpoint was deleted; its replicas are being stopped.")


class EndpointVersions(EndpointAction):
    """Versions of an endpoint."""

    path = "models/{name}/versions"

    @Operation("Add a version to an endpoint.", body=WantedVersion, errors=(409,))
    async def on_post(self, name: str) -> EndpointDetail:
        """Pin the environment as it is now, and launch replicas that get the version's share once
        they have answered its example. What answers now stays until then. Limits of requests
        that nobody has set become those of the version's model of the catalog."""
        user = self.person.name
        async with self.audited(
            EndpointAudit.ADD_ENDPOINT_VERSION, f"endpoint {name}", user
        ) as line:
            self.check_offered()
            endpoint = await self.owned(name)
            view = self.catalog_view()
            body = await view.completed(self.body)
            added = await self.add_version(endpoint, body, await self._source(body.source, view))
            if body.source.model and endpoint.limits == RequestLimits():
                limits = view.get(body.source.model).limits
                await self.table.change(name, limits=limits.model_dump())
            line.detail = f"Version {added.number}, {body.share} % of the traffic."
        return await self.detail(await self.table.get(name))

    async def _source(self, source: Source, view: ModelView) -> dict[str, Any]:
        """Return the source to be recorded: of a run with what tells its software, of a model of
        the catalog with what its test was of. Raises NotFound for a run that is not the user's."""
        if source.model:
            return {"model": source.model, "tested": view.fingerprint(view.get(source.model))}
        if not source.run:
            return {"folder": source.folder} if source.folder else {}
        run = await self.parts.store.table(RunTable).get(self.person.name, source.run)
        if run is None:
            raise NotFound("You have no such run.")
        if source.point >= run.points:
            raise InvalidRequest(f"The run has {run.points} points, from 0 on.", "source.point")
        points = self.parts.store.table(RunPointTable)
        point = (await points.of_run(run.user, run.id, [source.point])).get(source.point)
        return {
            "run": run.id,
            "point": source.point,
            "name": run.name,
            "version": run.version,
            "digest": run.code_digest,
            "parameters": point.parameters if point else {},
            "metrics": point.metrics if point else {},
            "folder": source.folder or run.folder,
        }


class EndpointShares(EndpointAction):
    """Shares of an endpoint's traffic."""

    path = "models/{name}/shares"

    @Operation("Divide the traffic of an endpoint among its versions.", body=WantedShares)
    async def on_put(self, name: str) -> EndpointDetail:
        """Launch what the shares need; what answers now stays until that answers. A version that
        was given up, because its replicas failed, is tried again."""
        user = self.person.name
        async with self.audited(
            EndpointAudit.SET_ENDPOINT_SHARES, f"endpoint {name}", user
        ) as line:
            await self.owned(name)
            known = {version.number: version for version in await self.versions.of_endpoint(name)}
            for key in self.body.shares:
                if not key.isdecimal() or str(int(key)) != key or int(key) not in known:
                    raise InvalidRequest(
                        f"'{key[:20]}' is no version of this endpoint. It has: "
                        f"{', '.join(map(str, sorted(known))) or 'none'}.",
                        "shares",
                    )
            shares = {key: share for key, share in self.body.shares.items() if share}
            if not shares:
                raise InvalidRequest("One share at least must be more than 0.", "shares")
            for key in shares:
                if known[int(key)].failures:
                    await self.versions.change(name, int(key), failures=0, problem="")
            await self.table.change(name, shares=shares, problem="")
            line.detail = ", ".join(f"version {key}: {share}" for key, share in shares.items())
        self.endpoint_parts.keeper.wake(name)
        return await self.detail(await self.table.get(name))


# The more general address is last.
ENDPOINTS = (*REPORTS, EndpointShares, EndpointVersions, OneEndpoint, Endpoints)
