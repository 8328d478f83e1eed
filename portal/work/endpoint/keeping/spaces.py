"""Projects of endpoints: who works in one, and whether its endpoints may have replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.cache import SharedAnswers
from portal.errors import NotAllowed, NotFound
from portal.launch.kinds.closed import closed
from portal.models.space import Role, SpaceState, StoredSpace
from portal.spaces.membership_cache import Membership, MembershipCache
from portal.store import Store

from ..kind import ServingReplica
from ..models import Endpoint

GRACE = 60.0  # seconds for which replicas stay after access has ended, as sessions do
_AGE = 3.0  # seconds for which the people of a project are known


def working_in(mine: Mapping[str, Membership[Any]]) -> frozenset[str]:
    """Return the names of the approved projects in which a person is more than a reader."""
    return frozenset(
        name
        for name, each in mine.items()
        if each.role is not Role.READER and _has_endpoints(each.stored)
    )


def _has_endpoints(stored: StoredSpace) -> bool:
    return stored.space.replicas and stored.state is SpaceState.APPROVED


def barred(stored: StoredSpace, role: Role, who: str, now: float) -> str:
    """Return why someone with this role in a space, whom ``who`` names ("You are"), cannot serve
    endpoints for it at ``now`` (Unix seconds), a sentence; "" if they can."""
    if role is Role.READER:
        return (
            f"{who} a reader of the {stored.space.called}, so endpoints cannot be served for it. "
            f"Ask its {stored.space.leader} for the role of a member."
        )
    return closed(ServingReplica, stored, role, now)


class EndpointSpaces:
    """Spaces as the keeper asks for them. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, memberships: MembershipCache[Any]) -> None:
        self._store, self._memberships = store, memberships
        self._people = SharedAnswers(self._working, ttl=lambda _: _AGE, most=10_000, keep=False)
        self._since: dict[str, float] = {}

    async def barred(self, endpoint: Endpoint, now: float) -> tuple[str, bool]:
        """Return why an endpoint gets no more replicas at ``now`` (Unix seconds), a sentence, "" if
        it does; and whether those that it has are to end, too: their users get a minute."""
        words = await self._words(endpoint, now) if endpoint.project else ""
        if not words:
            self._since.pop(endpoint.name, None)
            return "", False
        since = self._since.setdefault(endpoint.name, now)
        return words, now - since >= GRACE

    async def _words(self, endpoint: Endpoint, now: float) -> str:
        owner, name = endpoint.user, endpoint.project
        try:
            found = await self._memberships.membership(owner, name)
        except NotFound:
            return f"It gets no more replicas: there is no project '{name}' any more."
        except NotAllowed:
            return (
                f"It gets no more replicas: its owner {owner} is no longer a member of the project "
                f"'{name}'. Another member can serve the model under a new name."
            )
        return barred(found.stored, found.role, f"It gets no more replicas: {owner} is", now)

    async def people(self, endpoint: Endpoint) -> list[str]:
        """Return who may use an endpoint as a member of a project, by name."""
        names = {endpoint.project, *endpoint.projects} - {""}
        return sorted({who for name in names for who in await self._people.for_key(name).get()})

    async def _working(self, name: str) -> frozenset[str]:
        try:
            stored = await self._memberships.space(name)
        except NotFound:
            return frozenset()
        if not _has_endpoints(stored):
            return frozenset()
        members = await self._store.spaces.members_of(name)
        return frozenset(each.person for each in members if each.role is not Role.READER)
