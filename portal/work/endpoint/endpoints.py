"""``api/v1/models``: a user's endpoints, their versions and shares of the traffic.

The models themselves answer at ``models/NAME/…``, in the gateway.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from typing import Any

from portal.catalog.versions.pins import Pin, PinLost, pin_of, pinned
from portal.errors import InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Action, Confirmation
from portal.handlers.base.endpoint import Operation
from portal.handlers.catalog.environments import as_seen_by_catalog
from portal.handlers.sessions.estimates import EstimatesBase
from portal.models.cluster.cluster import Job
from portal.models.person import Person
from portal.models.scope import JOBS_MANAGE, SESSIONS_READ
from portal.models.session.session import SessionRecord
from portal.work.replicas.parts import ReplicaParts
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

from .audit import EndpointAudit
from .bodies import (
    OF_VERSION,
    DeletionQuery,
    EndpointDetail,
    EndpointItem,
    EndpointList,
    EndpointsQuery,
    EndpointState,
    ReplicaItem,
    Source,
    VersionItem,
    WantedEndpoint,
    WantedShares,
    WantedVersion,
)
from .catalog.items import PREFIX, ModelView
from .keeping.handover import ReplicaState
from .keeping.replicas import expected_at, measured, seen, server_of, state_of
from .keeping.scaling import with_share
from .models import NAME, Endpoint, EndpointReplica, EndpointVersion, exposed
from .parts import EndpointParts
from .reports import ENDPOINTS as REPORTS
from .tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

_MOST = 50  # endpoints of a user
_NONE = "You have no such endpoint."


def usable_by(person: Person, endpoint: Endpoint) -> bool:
    """Return True if the person may use the endpoint."""
    named = person.name == endpoint.user or person.name in endpoint.users
    return named or endpoint.everyone or bool(set(person.groups) & set(endpoint.groups))


class EndpointAction(Action, EstimatesBase):
    """Base class: the endpoints of the person who asks."""

    parameters = {"name": NAME}

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
            if self.may_use(found):
                raise NotAllowed(f"The endpoint '{name}' belongs to {found.user}.")
        raise NotFound(_NONE)

    def may_use(self, endpoint: Endpoint) -> bool:
        """Return True if the person may use the endpoint."""
        return usable_by(self.person, endpoint)

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
        rows = await self.replicas.of_endpoint(endpoint.name)
        records = await self.records(endpoint.user)
        load, wait = measured(rows)
        view = self.parts.dashboard.view
        jobs = view.snapshot.jobs if view is not None else {}
        versions = await self.versions.of_endpoint(endpoint.name)
        shares = {int(number): share for number, share in endpoint.shares.items()}
        found = {row.id: jobs.get(row.job_id) for row in rows}
        starts = {row.id: row.created_at + wait for row in rows}
        starts |= {id_: job.start_time for id_, job in found.items() if job and job.start_time}
        replicas = [seen(row, records.get(server_of(row)), found[row.id]) for row in rows]
        return EndpointDetail(
            **{field: getattr(endpoint, field) for field in WantedEndpoint.model_fields},
            name=endpoint.name,
            owner=endpoint.user,
            address=self.address(endpoint.name),
            created_at=endpoint.created_at,
            active_at=endpoint.active_at,
            problem=endpoint.problem,
            load=load,
            wait=wait,
            expected_at=expected_at(replicas, starts, time.time(), load),
            versions=tuple(
                VersionItem.like(each, share=shares.get(each.number, 0)) for each in versions
            ),
            replicas=tuple(
                _replica(row, records.get(server_of(row)), found[row.id], versions) for row in rows
            ),
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


class Endpoints(EndpointAction):
    """Endpoints that the person has or may use."""

    path = "models"
    parameters = {}

    @Operation("List the endpoints that you have or may use.", query=EndpointsQuery)
    async def on_get(self) -> EndpointList:
        """Return them by name."""
        if self.query.all and not self.may(SESSIONS_READ):
            await self.refused("All endpoints.", SESSIONS_READ)
        states: dict[str, Counter[ReplicaState]] = defaultdict(Counter)
        for row in await self.replicas.living():
            begun = ReplicaState.WAITING if row.waited is None else ReplicaState.LOADING
            state = state_of(row, None)
            states[row.endpoint][begun if state is ReplicaState.WAITING else state] += 1
        return EndpointList(
            items=tuple(
                EndpointItem(
                    name=each.name,
                    owner=each.user,
                    address=self.address(each.name),
                    state=_state(each, states[each.name]),
                    ready=states[each.name][ReplicaState.READY],
                    problem=each.problem,
                    mine=each.user == self.person.name,
                    active_at=each.active_at,
                )
                for each in await self.table.every()
                if self.query.all or self.may_use(each)
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
        they have answered its example. What answers now stays until then."""
        user = self.person.name
        async with self.audited(
            EndpointAudit.ADD_ENDPOINT_VERSION, f"endpoint {name}", user
        ) as line:
            self.check_offered()
            endpoint = await self.owned(name)
            view = self.catalog_view()
            body = await view.completed(self.body)
            added = await self.add_version(endpoint, body, await self._source(body.source, view))
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


def _state(endpoint: Endpoint, replicas: Counter[ReplicaState]) -> EndpointState:
    """Return the state of an endpoint with so many replicas of each state."""
    states: dict[ReplicaState, EndpointState] = {
        ReplicaState.READY: "ready",
        ReplicaState.LOADING: "loading",
        ReplicaState.WAITING: "waiting",
    }
    told = next((word for state, word in states.items() if replicas[state]), None)
    if told == "ready" or not endpoint.problem:
        return told or ("asleep" if endpoint.shares else "empty")
    return "failed"


def _replica(
    row: EndpointReplica,
    record: SessionRecord | None,
    job: Job | None,
    versions: list[EndpointVersion],
) -> ReplicaItem:
    replica = seen(row, record, job)
    resources = {version.number: version.resources for version in versions}.get(row.version, {})
    return ReplicaItem(
        id=row.id,
        version=row.version,
        state=replica.state,
        server=server_of(row),
        session=record.id if record is not None else "",
        job_id=row.job_id,
        nodes=record.nodes if record is not None else (),
        successor_of=row.successor_of,
        created_at=row.created_at,
        started_at=replica.started_at,
        ready_at=row.ready_at,
        ends_at=replica.ends_at,
        ended_at=row.ended_at,
        overlap=row.overlap,
        gpu_hours=row.overlap * int(resources.get("gpus") or 0) / 3600,
    )


# The more general address is last.
ENDPOINTS = (*REPORTS, EndpointShares, EndpointVersions, OneEndpoint, Endpoints)
