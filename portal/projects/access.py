"""Base class of endpoints for a single project: who may use them."""

from __future__ import annotations

from typing import ClassVar

from portal.errors import NotAllowed, NotFound
from portal.handlers.base.action import Action
from portal.models.audit import AuditAction, Outcome
from portal.models.scope import PROJECTS_MANAGE
from portal.models.space import Role
from portal.spaces.membership_cache import Membership

from .bodies import ProjectDetail
from .models import PROJECT, StoredProject
from .parts import ProjectParts
from .view import detail_of

EVERYONE = frozenset({Role.OWNER, Role.MEMBER, Role.READER})
OWNERS = frozenset({Role.OWNER})
NOBODY: frozenset[Role] = frozenset()  # admins alone, by their scope


class ProjectAction(Action):
    """Base class below ``projects/{project}``; ``stored`` and ``role`` are set when a method runs.

    ``readers``: roles in the project that may GET; ``changers``: those for other methods;
    ``admins``: whether holders of PROJECTS_MANAGE may, too. All others get 403, in the same words
    if there is no such project, and an entry in the audit log.
    """

    parameters: ClassVar[dict[str, str]] = {"project": PROJECT}
    readers: ClassVar[frozenset[Role]] = EVERYONE
    changers: ClassVar[frozenset[Role]] = OWNERS
    admins: ClassVar[bool] = True

    stored: StoredProject
    role: Role | None = None  # None: an admin who is not in the project

    async def admit(self) -> None:
        """Admit those who may ask; record all others in the audit log."""
        name = self.path_kwargs["project"]
        memberships = self.parts.memberships.of_type("project")
        roles = self.readers if self.request.method in ("GET", "HEAD") else self.changers
        try:
            membership: Membership | None = await memberships.membership(self.person.name, name)
        except (NotAllowed, NotFound):
            membership = None
        if membership is not None and membership.role in roles:
            self.stored, self.role = membership.stored, membership.role
            return
        if self.admins and self.may(PROJECTS_MANAGE):
            self.stored = await memberships.space(name)
            self.role = membership.role if membership else None
            return
        known = f"Their role is {membership.role}." if membership else "They are not a member."
        await self.parts.audit(
            self,
            AuditAction.DENIED,
            f"project {name}",
            outcome=Outcome.REFUSED,
            detail=f"{self._summary} {known}".strip(),
        )
        if membership is None:
            raise NotAllowed(f"There is no project '{name}' that you can access.")
        needs = " or ".join(sorted(roles)) or "of an admin of the portal"
        raise NotAllowed(f"This requires the role {needs}. Your role here is {membership.role}.")

    async def fresh(self) -> StoredProject:
        """Return the project as it is now, even if another process has changed it."""
        stored: StoredProject = await self.parts.memberships.of_type("project").space(
            self.stored.name, fresh=True
        )
        return stored

    async def detail(self, stored: StoredProject) -> ProjectDetail:
        """Return the project as this person sees it."""
        return await detail_of(self.project_parts, self.parts.store, stored, self.person)

    @property
    def project_parts(self) -> ProjectParts:
        """Objects for projects."""
        return self.parts_for(ProjectParts)
