"""Members of projects: by name, or from a group of the directory. A project always has an owner."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from portal.directory import Directory
from portal.errors import Conflict, InvalidRequest, NotFound, PortalError
from portal.models.space import Role, SpaceState
from portal.service_accounts import is_service, service_accounts
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

from .models import ProjectMember, StoredProject
from .settings import Projects
from .tables import ProjectTable

MOST = 1000  # members of a project


@dataclass
class ProjectMembers:
    """Changes of members, one after another: the last owner stays, whatever two owners do at the
    same moment. ``troubles``: why a project's group could not be read, by project.

    Every method raises StoreUnavailable.
    """

    store: Store
    memberships: MembershipCache
    directory: Directory
    settings: Projects
    log: logging.Logger
    troubles: dict[str, str] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def _table(self) -> ProjectTable:
        return self.store.table(ProjectTable)

    @cached_property
    def _services(self) -> frozenset[str]:
        return service_accounts(self.settings.config)

    async def members_of(self, project: str) -> dict[str, ProjectMember]:
        """Return the members of a project by name."""
        return {member.person: member for member in await self._table.members.of_space(project)}

    async def checked(self, people: Sequence[str]) -> list[str]:
        """Return names as the Hub spells them. Raises InvalidRequest for one that no user has,
        DirectoryUnavailable."""
        for name in people:
            if is_service(name, self._services):
                raise InvalidRequest(
                    f"'{name}' is a service account, which cannot be a member.", "people"
                )
        if not people or not self.directory.on or not self.directory.complete:
            return list(dict.fromkeys(people))
        known = await self.directory.known(people)
        if unknown := [name for name in people if name not in known]:
            raise InvalidRequest(
                f"The directory has no user '{unknown[0][:60]}'. Check the name; nothing was "
                "changed.",
                "people",
            )
        return list(dict.fromkeys(known[name] for name in people))

    async def put(
        self, stored: StoredProject, people: Sequence[str], role: Role, by: str, most: int = MOST
    ) -> list[str]:
        """Make ``people`` members with this role, or change theirs; return those who have it now
        and had not. ``most``: members in all. Raises Conflict, InvalidRequest,
        DirectoryUnavailable."""
        names = await self.checked(people)
        async with self._lock:
            await self._demand_open(stored)
            before = await self.members_of(stored.name)
            new = [name for name in names if name not in before or before[name].role is not role]
            if len(before.keys() | set(names)) > min(most, MOST):
                raise InvalidRequest(
                    f"The project can have at most {min(most, MOST)} members. An admin of the "
                    "portal can add more.",
                    "people",
                )
            _demand_owner(before, dict.fromkeys(new, role))
            await self._put(stored.name, new, role, by)
        return new

    async def remove(self, stored: StoredProject, person: str) -> None:
        """Remove a member. Raises NotFound, Conflict for the last owner, and for one who would come
        back from the directory's group."""
        async with self._lock:
            before = await self.members_of(stored.name)
            if person not in before:
                raise NotFound(f"The project '{stored.name}' has no such member.")
            if before[person].source == "group" and stored.project.roster_group:
                raise Conflict(
                    f"'{person}' is a member by the directory's group "
                    f"'{stored.project.roster_group}'. Remove them from the group."
                )
            _demand_owner(before, {person: None})
            await self._table.members.remove(stored.name, [person])
            self.memberships.forget()

    async def hand_over(self, stored: StoredProject, giver: str, person: str, by: str) -> None:
        """Make ``person`` an owner; ``giver``, an owner so far, stays as a member. Raises Conflict,
        InvalidRequest, DirectoryUnavailable."""
        (name,) = await self.checked([person])
        if name == giver:
            raise InvalidRequest("Name another user than the owner who hands over.", "person")
        async with self._lock:
            await self._demand_open(stored)
            before = await self.members_of(stored.name)
            if giver not in before or before[giver].role is not Role.OWNER:
                raise Conflict(f"'{giver}' is no owner of the project any more. Reload it.")
            await self._put(stored.name, [name], Role.OWNER, by)
            await self._put(stored.name, [giver], Role.MEMBER, by)

    async def copy_group(self, stored: StoredProject) -> None:
        """Make the users of the project's group members, and remove those who left it; others keep
        their role. A group that cannot be read changes nothing."""
        group = stored.project.roster_group
        try:
            names = await self.directory.members_of(group) if group and self.directory.on else ()
            if len(names) > MOST:
                raise InvalidRequest(
                    f"The group '{group}' has {len(names)} users; the limit is {MOST}."
                )
        except PortalError as error:
            if self.troubles.get(stored.name) != error.message:
                self.log.warning("The group of project %s: %s", stored.name, error.message)
            self.troubles[stored.name] = error.message
            return
        self.troubles.pop(stored.name, None)
        people = [name for name in names if not is_service(name, self._services)]
        async with self._lock:
            before = await self.members_of(stored.name)
            gone = [
                member.person
                for member in before.values()
                if member.source == "group" and member.person not in people
            ]
            new = [name for name in people if name not in before]
            await self._put(stored.name, new, Role.MEMBER, group, "group")
            if gone:
                await self._table.members.remove(stored.name, gone)
                self.memberships.forget()

    async def _demand_open(self, stored: StoredProject) -> None:
        state = (await self._table.get(stored.name)).state
        if state is SpaceState.ARCHIVED:
            raise Conflict(
                f"The project '{stored.name}' is archived, so its members cannot change. Restore "
                "it first."
            )

    async def _put(
        self,
        project: str,
        names: Sequence[str],
        role: Role,
        by: str,
        source: Literal["list", "group"] = "list",
    ) -> None:
        if not names:
            return
        at = time.time()
        members = [
            ProjectMember(
                project=project, person=name, role=role, source=source, added_by=by, added_at=at
            )
            for name in names
        ]
        await self._table.members.put(members)
        self.memberships.forget()


def _demand_owner(before: Mapping[str, ProjectMember], changes: Mapping[str, Role | None]) -> None:
    """Raise Conflict if no owner would be left. ``changes``: new roles; None: they leave."""
    roles: dict[str, Role | None] = {name: member.role for name, member in before.items()}
    if Role.OWNER not in (roles | dict(changes)).values():
        raise Conflict(
            "A project needs an owner. Hand it over, or make another member an owner first."
        )
