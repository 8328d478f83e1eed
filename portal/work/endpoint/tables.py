"""Endpoints, their versions and replicas. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Connection, Index, and_, delete, func, select, text, update
from sqlalchemy.exc import IntegrityError

from portal.errors import Conflict, NotFound
from portal.store.engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from portal.store.engine.rows import ModelTable

from .models import Endpoint, EndpointReplica, EndpointVersion

endpoints = keyed(
    "endpoints",
    *keys(NAME, "name"),
    *filled(NAME, "user"),
    *filled(NAME, "project", server_default=text("''")),
    *filled(TIME, "created_at", "active_at"),
    *filled(COUNT, "least", "most", "target", "idle"),
    *filled(Json, "limits", "users", "groups", "shares"),
    *filled(Json, "projects", server_default=text("'[]'")),
    *filled(Boolean(), "everyone"),
    *filled(TEXT, "problem"),
)
endpoint_versions = keyed(
    "endpoint_versions",
    *keys(NAME, "endpoint"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(TIME, "created_at"),
    *filled(Json, "source", "command", "paths", "example", "resources"),
    *filled(NAME, "environment", "digest", "health"),
    *filled(COUNT, "environment_version", "failures"),
    *filled(TEXT, "folder", "problem"),
)
endpoint_replicas = keyed(
    "endpoint_replicas",
    *keys(NAME, "user", "id"),
    *filled(NAME, "endpoint", "environment", "health", "successor_of", "job_id"),
    *filled(NAME, "project", server_default=text("''")),
    *filled(COUNT, "version", "environment_version", "port"),
    *filled(Json, "command"),
    *filled(TEXT, "folder", "gateway", "certificate"),
    *filled(TIME, "created_at", "overlap"),
    *optional(TIME, "waited", "loaded"),
    *optional(TIME, "answered_at", "ready_at", "draining_at", "ended_at", "told_at"),
    Index(None, "endpoint"),
)


class EndpointTable(ModelTable[Endpoint]):
    """The table of endpoints, by name. Every method raises StoreUnavailable."""

    table, model = endpoints, Endpoint

    async def add_endpoint(self, endpoint: Endpoint) -> None:
        """Insert an endpoint. Raises Conflict if the name is another's."""

        def write(to: Connection) -> None:
            try:
                to.execute(endpoints.insert().values(endpoint.model_dump()))
            except IntegrityError:
                raise Conflict(
                    f"An endpoint '{endpoint.name}' exists. Choose another name."
                ) from None

        await self._database.run(write, write=True)

    async def get(self, name: str) -> Endpoint:
        """Return an endpoint. Raises NotFound."""
        found = await self._first(select(endpoints).where(endpoints.c.name == name))
        if found is None:
            raise NotFound(f"There is no endpoint '{name}'.")
        return found

    async def every(self) -> list[Endpoint]:
        """Return all endpoints by name."""
        return await self._models(select(endpoints).order_by(endpoints.c.name))

    async def of_project(self, project: str) -> list[Endpoint]:
        """Return the endpoints that are served for a project, or shared with it, by name."""
        return [each for each in await self.every() if project in (each.project, *each.projects)]

    async def change(self, name: str, **values: Any) -> None:
        """Update columns of an endpoint."""
        await self._write(update(endpoints).where(endpoints.c.name == name).values(values))

    async def remove(self, name: str) -> None:
        """Delete an endpoint with its versions and replicas, whose sets stay."""

        def write(to: Connection) -> None:
            for column in (endpoint_versions.c.endpoint, endpoint_replicas.c.endpoint):
                to.execute(delete(column.table).where(column == name))
            to.execute(delete(endpoints).where(endpoints.c.name == name))

        await self._database.run(write, write=True)


class EndpointVersionTable(ModelTable[EndpointVersion]):
    """The table of versions. Every method raises StoreUnavailable."""

    table, model = endpoint_versions, EndpointVersion

    async def add_version(self, version: EndpointVersion) -> EndpointVersion:
        """Insert a version with the next number of its endpoint; return it."""
        columns = endpoint_versions.c

        def write(to: Connection) -> int:
            query = select(func.coalesce(func.max(columns.number), 0))
            last = to.execute(query.where(columns.endpoint == version.endpoint)).scalar_one()
            values = {**version.model_dump(), "number": last + 1}
            to.execute(endpoint_versions.insert().values(values))
            return int(last) + 1

        number = await self._database.run(write, write=True)
        return version.model_copy(update={"number": number})

    async def of_endpoint(self, name: str) -> list[EndpointVersion]:
        """Return the versions of an endpoint, newest first."""
        query = select(endpoint_versions).where(endpoint_versions.c.endpoint == name)
        return await self._models(query.order_by(endpoint_versions.c.number.desc()))

    async def beginning(self, prefix: str) -> list[EndpointVersion]:
        """Return the versions of all endpoints whose names begin with ``prefix``, oldest first."""
        columns = endpoint_versions.c
        query = select(endpoint_versions).where(
            columns.endpoint.startswith(prefix, autoescape=True)
        )
        return await self._models(query.order_by(columns.created_at, columns.number))

    async def change(self, name: str, number: int, **values: Any) -> None:
        """Update columns of a version."""
        columns = endpoint_versions.c
        own = and_(columns.endpoint == name, columns.number == number)
        await self._write(update(endpoint_versions).where(own).values(values))


class EndpointReplicaTable(ModelTable[EndpointReplica]):
    """The table of replicas. Every method raises StoreUnavailable."""

    table, model = endpoint_replicas, EndpointReplica

    async def add_replica(self, replica: EndpointReplica) -> None:
        """Insert a replica."""
        await self._write(endpoint_replicas.insert().values(replica.model_dump()))

    async def get(self, user: str, id_: str) -> EndpointReplica:
        """Return a replica of a user. Raises NotFound."""
        found = await self._first(select(endpoint_replicas).where(_own(user, id_)))
        if found is None:
            raise NotFound("You have no such replica.")
        return found

    async def living(self) -> list[EndpointReplica]:
        """Return the replicas that have not ended, oldest first."""
        columns = endpoint_replicas.c
        query = select(endpoint_replicas).where(columns.ended_at.is_(None))
        return await self._models(query.order_by(columns.created_at, columns.id))

    async def of_endpoint(self, name: str, limit: int = 100) -> list[EndpointReplica]:
        """Return the newest replicas of an endpoint, ended ones included."""
        columns = endpoint_replicas.c
        query = select(endpoint_replicas).where(columns.endpoint == name)
        query = query.order_by(columns.created_at.desc(), columns.id).limit(limit)
        return await self._models(query)

    async def set_ready(self, row: EndpointReplica, at: float) -> None:
        """Record that a replica has answered the example, unless it is another program by now."""
        columns = endpoint_replicas.c
        same = and_(
            _own(row.user, row.id),
            columns.port == row.port,
            columns.certificate == row.certificate,
            columns.answered_at == row.answered_at,
        )
        await self._write(update(endpoint_replicas).where(same).values(ready_at=at))

    async def remove(self, user: str, id_: str) -> None:
        """Delete a replica that was never launched."""
        await self._write(delete(endpoint_replicas).where(_own(user, id_)))

    async def change(self, user: str, id_: str, **values: Any) -> None:
        """Update columns of a replica."""
        await self._write(update(endpoint_replicas).where(_own(user, id_)).values(values))


def _own(user: str, id_: str) -> Any:
    return and_(endpoint_replicas.c.user == user, endpoint_replicas.c.id == id_)
