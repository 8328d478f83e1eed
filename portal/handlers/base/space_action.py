"""Base class of endpoints for a single space of any type: who may use them."""

from __future__ import annotations

from typing import Any, ClassVar

from portal.errors import NotAllowed, NotFound
from portal.models.audit import AuditAction, Outcome
from portal.models.space import Role
from portal.spaces.membership_cache import Membership

from .action import Action


class SpaceAction(Action):
    """Base class below ``NOUNs/{NOUN}``; ``stored`` and ``role`` are set when a method runs.

    ``noun``: of the type of spaces; ``manages``: the scope of those who manage all of them.
    ``roles``: those in the space that may ask; ``changers``: those for methods other than GET,
    None: the same; ``admins``: whether holders of ``manages`` may, too. All others get 403, in the
    same words if there is no such space, and an entry in the audit log.
    """

    noun: ClassVar[str]
    manages: ClassVar[str]
    roles: ClassVar[frozenset[Role]]
    changers: ClassVar[frozenset[Role] | None] = None
    admins: ClassVar[bool] = True

    stored: Any
    role: Role | None = None  # None: admitted as an admin

    async def admit(self) -> None:
        """Admit those who may ask; record all others in the audit log."""
        name = self.path_kwargs[self.noun]
        memberships, roles = self.parts.memberships.of_type(self.noun), self.roles
        if self.changers is not None and self.request.method not in ("GET", "HEAD"):
            roles = self.changers
        try:
            membership: Membership | None = await memberships.membership(self.person.name, name)
        except (NotAllowed, NotFound):
            membership = None
        if membership is not None and membership.role in roles:
            self.stored, self.role = membership.stored, membership.role
            return
        if self.admins and self.may(self.manages):
            self.stored, self.role = await memberships.space(name), None
            return
        known = f"Their role is {membership.role}." if membership else "They are not a member."
        await self.parts.audit(
            self,
            AuditAction.DENIED,
            f"{self.noun} {name}",
            outcome=Outcome.REFUSED,
            detail=f"{self._summary} {known}".strip(),
        )
        if membership is None:
            raise NotAllowed(f"There is no {self.noun} '{name}' that you can access.")
        needs = " or ".join(sorted(str(role) for role in roles)) or "of an admin of the portal"
        raise NotAllowed(f"This requires the role {needs}. Your role here is {membership.role}.")

    async def fresh(self) -> Any:
        """Return the space as it is now, even if another process has changed it."""
        memberships = self.parts.memberships.of_type(self.noun)
        return await memberships.space(self.stored.name, fresh=True)
