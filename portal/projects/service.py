"""Life of projects: request, approval, change, archive."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.errors import Conflict, InvalidRequest, NotAllowed
from portal.models.person import Person
from portal.models.scope import PROJECTS_MANAGE
from portal.models.space import Role, SpaceState
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

from .members import MOST, ProjectMembers
from .models import Project, ProjectMember, StoredProject
from .rules import ProjectRules
from .settings import Projects
from .tables import ProjectTable

_COUNTED = (SpaceState.REQUESTED, SpaceState.APPROVED)


@dataclass
class ProjectService:
    """Actions on projects. Every method raises StoreUnavailable; those that change a project raise
    Conflict if another user changed it since ``number``, or its state does not fit."""

    store: Store
    memberships: MembershipCache
    rules: ProjectRules
    members: ProjectMembers
    settings: Projects

    @property
    def table(self) -> ProjectTable:
        """Table of projects."""
        return self.store.table(ProjectTable)

    def may_create(self, by: Person) -> bool:
        """Return True if the user may request projects."""
        return self.settings.approval != "off" or by.may(PROJECTS_MANAGE)

    def demand_creation(self, by: Person) -> None:
        """Raise NotAllowed if ``may_create`` is false."""
        if not self.may_create(by):
            raise NotAllowed("Only admins create projects here. Ask an admin of this portal.")

    async def create(
        self, project: Project, people: Mapping[str, Role], by: Person
    ) -> StoredProject:
        """Create a project with ``by`` as an owner, beside these members: approved within the
        policy, else requested. Raises NotAllowed, InvalidRequest, Conflict if the name is taken,
        DirectoryUnavailable, SlurmUnavailable."""
        self.demand_creation(by)
        await self.rules.check(project, by)
        await self._demand_fewer(by)
        roles = {
            name: role
            for role in (Role.READER, Role.MEMBER, Role.OWNER)
            for name in await self.members.checked([p for p, own in people.items() if own is role])
        }
        roles[by.name] = Role.OWNER
        if len(roles) > MOST:
            raise InvalidRequest(f"A project can have at most {MOST} members.", "members")
        reason = await self._reason(project, by, len(roles))
        now = time.time()
        stored = StoredProject(
            project=project,
            state=SpaceState.REQUESTED if reason else SpaceState.APPROVED,
            created_by=by.name,
            created_at=now,
            changed_at=now,
        )
        rows = [
            ProjectMember(
                project=project.name, person=name, role=role, added_by=by.name, added_at=now
            )
            for name, role in roles.items()
        ]
        await self.table.add_space(stored, rows)
        self.memberships.forget()
        return stored

    async def edit(
        self, stored: StoredProject, project: Project, number: int, by: Person
    ) -> StoredProject:
        """Replace the definition. One that was refused is requested again. Raises InvalidRequest,
        NotAllowed for more than was approved, SlurmUnavailable."""
        _demand(stored, number, *(state for state in SpaceState if state != "archived"))
        if project.name != stored.name:
            raise InvalidRequest(
                f"The name '{stored.name}' cannot be changed: folders and sessions use it. Export "
                "the project, and import it under another name.",
                "name",
            )
        await self.rules.check(project, by, stored.project)
        approved = stored.state is SpaceState.APPROVED
        before = stored.project if approved else None
        count = len(await self.members.members_of(stored.name))
        reason = await self._reason(project, by, count, before)
        if approved and reason:
            raise NotAllowed(f"{reason} Nothing was changed.")
        state = stored.state
        if not approved:
            state = SpaceState.REQUESTED
            if not reason and not by.may(PROJECTS_MANAGE):  # an admin approves by the button
                state = SpaceState.APPROVED
        return await self._save(stored, project=project, state=state)

    async def approve(
        self, stored: StoredProject, number: int, by: Person, answer: str
    ) -> StoredProject:
        """Approve a request."""
        _demand(stored, number, SpaceState.REQUESTED, SpaceState.REFUSED)
        return await self._answered(stored, SpaceState.APPROVED, by, answer)

    async def refuse(
        self, stored: StoredProject, number: int, by: Person, answer: str
    ) -> StoredProject:
        """Refuse a request, with the reason. Raises InvalidRequest without one."""
        _demand(stored, number, SpaceState.REQUESTED)
        if not answer:
            raise InvalidRequest("'answer': give the reason for the refusal.", "answer")
        return await self._answered(stored, SpaceState.REFUSED, by, answer)

    async def archive(self, stored: StoredProject, number: int) -> StoredProject:
        """Archive a project: nothing starts in it any more, and nothing is deleted."""
        _demand(stored, number, *(state for state in SpaceState if state != "archived"))
        return await self._save(stored, state=SpaceState.ARCHIVED, archived_at=time.time())

    async def restore(self, stored: StoredProject, number: int, by: Person) -> StoredProject:
        """Restore an archived project: as an admin's, or within the policy, it is approved at
        once, else requested. Raises Conflict for one whose end has passed."""
        _demand(stored, number, SpaceState.ARCHIVED)
        ended = stored.project.closed(time.time())
        if ended and not by.may(PROJECTS_MANAGE):
            raise Conflict(f"{ended} Only an admin of the portal can restore it, without an end.")
        count = len(await self.members.members_of(stored.name))
        reason = await self._reason(stored.project, by, count)
        state = SpaceState.REQUESTED if reason else SpaceState.APPROVED
        project = stored.project
        if ended:
            project = project.model_copy(update={"ends": None})
        return await self._save(stored, project=project, state=state, archived_at=None)

    async def _demand_fewer(self, by: Person) -> None:
        if by.may(PROJECTS_MANAGE):
            return
        own = (await self.memberships.mine(by.name)).values()
        held = sum(each.role is Role.OWNER and each.stored.state in _COUNTED for each in own)
        if held >= self.settings.per_user:
            raise NotAllowed(
                f"You own or have requested {held} projects; the limit is "
                f"{self.settings.per_user}. Archive one, or ask an admin of the portal."
            )

    async def _reason(
        self, project: Project, by: Person, members: int, before: Project | None = None
    ) -> str:
        """Return why an admin must approve what ``by`` asks for; "" if none must."""
        if by.may(PROJECTS_MANAGE):
            return ""
        return await self.rules.for_admins(project, by, members, before)

    async def _answered(
        self, stored: StoredProject, state: SpaceState, by: Person, answer: str
    ) -> StoredProject:
        answered: dict[str, Any] = {"answered_by": by.name, "answered_at": time.time()}
        return await self._save(stored, state=state, answer=answer, **answered)

    async def _save(self, stored: StoredProject, **values: Any) -> StoredProject:
        saved = await self.table.save(
            stored.model_copy(update={"changed_at": time.time(), **values})
        )
        self.memberships.forget()
        return saved


def _demand(stored: StoredProject, number: int, *states: SpaceState) -> None:
    if stored.number != number:
        raise Conflict("Another user has changed this project. Reload it and try again.")
    if stored.state not in states:
        raise Conflict(
            f"The project '{stored.name}' is {stored.state}, so this action is not possible."
        )
