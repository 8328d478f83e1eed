"""``api/v1/replica-sets``: a user's replica sets."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated, Any

from pydantic import Field

from portal.errors import Conflict, InvalidRequest, NotFound
from portal.handlers.base.action import Action, Confirmation
from portal.handlers.base.endpoint import Operation
from portal.launch.kinds import KINDS, stored_kind
from portal.launch.request import Asked
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.session.chosen_id import ID
from portal.models.session.replica_set import MOST_REPLICAS, ReplicaSet
from portal.models.session.session import SessionState
from portal.work.replicas.kind import ReplicaKind
from portal.work.replicas.tables import ReplicaSetTable

from .parts import ReplicaParts
from .reconciler import servers_of


class WantedReplicas(Frozen):
    """State that a set should have."""

    work: Annotated[str, Field(description="Kind of work.", max_length=100)]
    replicas: Annotated[int, Field(ge=0, le=MOST_REPLICAS, strict=True)]
    options: Annotated[
        dict[str, Any],
        Field(description="user_options of each replica, without the set's id and a number."),
    ] = {}


class ReplicaItem(Frozen):
    """Replica that waits or runs. Times are Unix seconds."""

    number: int
    server: str
    state: SessionState
    job_id: str
    submitted_at: float
    started_at: float | None


class ReplicaSetItem(Frozen):
    """Replica set. ``replicas``: the number that should run; ``running``: those that wait or run;
    ``problem``: why the last launch was refused, a sentence."""

    id: str
    work: str
    replicas: int
    options: dict[str, Any]
    created_at: float
    problem: str
    running: tuple[ReplicaItem, ...]


class ReplicaSetList(Frozen):
    """Replica sets, oldest first, and how many replicas a user may have at ``most``."""

    items: tuple[ReplicaSetItem, ...]
    most: int


class _ReplicaAction(Action):
    async def items(self, *sets: ReplicaSet) -> tuple[ReplicaSetItem, ...]:
        """Return the sets with what runs of each."""
        records, _ = await self.parts.store.sessions.find(
            user=self.person.name, ended=False, limit=1000
        )
        living = {record.server: record for record in records}
        return tuple(
            ReplicaSetItem.like(
                each,
                running=tuple(
                    ReplicaItem.like(living[server], number=number)
                    for number, server in enumerate(servers_of(each))
                    if server in living
                ),
            )
            for each in sets
        )

    @property
    def replicas(self) -> ReplicaParts:
        """Objects for replica sets."""
        return self.parts_for(ReplicaParts)


class ReplicaSets(_ReplicaAction):
    """Replica sets of the user."""

    path = "replica-sets"

    @Operation("List your replica sets.")
    async def on_get(self) -> ReplicaSetList:
        """Return them with what runs of each."""
        sets = await self.parts.store.table(ReplicaSetTable).of_user(self.person.name)
        items = await self.items(*sets)
        return ReplicaSetList(items=items, most=self.replicas.limits.per_user)


class OneReplicaSet(_ReplicaAction):
    """Replica set of the user."""

    path = "replica-sets/{id}"
    parameters = {"id": ID}

    @Operation("Get one of your replica sets.")
    async def on_get(self, id: str) -> ReplicaSetItem:
        """Return it with what runs of it."""
        return (
            await self.items(
                await self.parts.store.table(ReplicaSetTable).get(self.person.name, id)
            )
        )[0]

    @Operation("Make or change a replica set.", body=WantedReplicas)
    async def on_put(self, id: str) -> ReplicaSetItem:
        """Launch or stop sessions until ``replicas`` run. One that ends is launched again. New
        options hold for later launches."""
        body: WantedReplicas = self.body
        user = self.person.name
        async with self.audited(AuditAction.SET_REPLICAS, f"replica set {id}", user) as line:
            kind = _kind_named(body.work)
            own = body.options.get(kind.option, {})
            if not isinstance(own, dict):
                raise InvalidRequest(f"'{kind.option}' must be an object.", kind.option)
            # Before it is stored: what is malformed would be refused at each launch.
            Asked.parse({**body.options, kind.option: {**own, "id": id}})
            await self._check_work(id, kind)
            wanted = ReplicaSet(user=user, id=id, created_at=time.time(), **body.model_dump())
            saved = await self.parts.store.table(ReplicaSetTable).save(
                wanted, self.replicas.limits.per_user
            )
            line.detail = f"{wanted.replicas} of {kind.name}."
        self.replicas.reconciler.changed.set()
        return (await self.items(saved))[0]

    async def _check_work(self, id: str, kind: type[ReplicaKind]) -> None:
        """Raise Conflict for a set of another kind, whose sessions would be forgotten."""
        with contextlib.suppress(NotFound):
            found = await self.parts.store.table(ReplicaSetTable).get(self.person.name, id)
            if found.work != kind.name:
                raise Conflict(
                    f"This replica set is of '{found.work}'. Delete it, or choose another id."
                )

    @Operation("Stop a replica set, and delete it.")
    async def on_delete(self, id: str) -> Confirmation:
        """Stop all its sessions; the set is deleted when they have ended."""
        user = self.person.name
        async with self.audited(AuditAction.SET_REPLICAS, f"replica set {id}", user, "Deleted."):
            found = await self.parts.store.table(ReplicaSetTable).get(user, id)
            _check_owner(found)
            none = found.model_copy(update={"replicas": 0})
            await self.parts.store.table(ReplicaSetTable).save(none, self.replicas.limits.per_user)
        self.replicas.reconciler.changed.set()
        return Confirmation(message="The replicas are being stopped.")


def _check_owner(found: ReplicaSet) -> None:
    """Raise Conflict for a set that the portal itself keeps."""
    kind = stored_kind(found.work)
    if issubclass(kind, ReplicaKind) and not kind.of_users:
        raise Conflict(f"This replica set is {kind.title}'s: it is changed there.")


def _kind_named(work: str) -> type[ReplicaKind]:
    replicated = [kind for kind in KINDS if issubclass(kind, ReplicaKind)]
    kinds = {kind.name: kind for kind in replicated if kind.of_users}
    if work not in kinds:
        known = ", ".join(kinds) or "none on this site"
        raise InvalidRequest(f"'work' must be a kind with replicas: {known}.", "work")
    return kinds[work]


ENDPOINTS = (ReplicaSets, OneReplicaSet)
