"""Base class of endpoints for a single course: who may use them."""

from __future__ import annotations

from typing import ClassVar

from portal.errors import NotAllowed, NotFound
from portal.models.audit import AuditAction, Outcome
from portal.models.course.course import StoredCourse
from portal.models.scope import COURSES_MANAGE
from portal.models.space import STAFF, Role
from portal.spaces.membership_cache import Membership

from ..base.action import Action

COURSE = r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?"
EVERYONE = STAFF | {Role.STUDENT}
INSTRUCTORS = frozenset({Role.INSTRUCTOR})
_NOTHING = "There is no course '{}' that you can access."


class CourseAction(Action):
    """Base class below ``courses/{course}``; ``stored`` and ``role`` are set when a method runs.

    ``roles``: those in the course that may ask; ``admins``: whether holders of COURSES_MANAGE may,
    too (never for what lies in students' sessions). ``changers``: like ``roles``, for methods
    other than GET if they take more. All others get 403, in the same words if there is no such
    course, and an entry in the audit log.
    """

    parameters: ClassVar[dict[str, str]] = {"course": COURSE}
    roles: ClassVar[frozenset[Role]] = STAFF
    changers: ClassVar[frozenset[Role] | None] = None
    admins: ClassVar[bool] = True

    stored: StoredCourse
    role: Role | None = None  # None: an admin who is not in the course

    async def admit(self) -> None:
        """Admit those who may ask; record all others in the audit log."""
        name = self.path_kwargs["course"]
        memberships, roles = self.parts.memberships.of_type("course"), self.roles
        if self.changers is not None and self.request.method not in ("GET", "HEAD"):
            roles = self.changers
        try:
            membership: Membership | None = await memberships.membership(self.person.name, name)
        except (NotAllowed, NotFound):
            membership = None
        if membership is not None and membership.role in roles:
            self.stored, self.role = membership.stored, membership.role
            return
        if self.admins and self.may(COURSES_MANAGE):
            self.stored, self.role = await memberships.space(name), None
            return
        known = f"Their role is {membership.role}." if membership else "They are not a member."
        await self.parts.audit(
            self,
            AuditAction.DENIED,
            f"course {name}",
            outcome=Outcome.REFUSED,
            detail=f"{self._summary} {known}".strip(),
        )
        if membership is None:
            raise NotAllowed(_NOTHING.format(name))
        needs = " or ".join(sorted(str(role) for role in roles))
        raise NotAllowed(f"This requires the role {needs}. Your role here is {membership.role}.")
