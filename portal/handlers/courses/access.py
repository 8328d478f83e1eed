"""Base of what concerns one course: who may ask for it."""

from __future__ import annotations

from typing import ClassVar

from portal.courses.roster.membership_cache import Membership
from portal.errors import NotAllowed, NotFound
from portal.models.audit import Outcome
from portal.models.course.course import STAFF, KeptCourse, Role
from portal.models.scope import COURSES_MANAGE

from ..base.action import Action

COURSE = r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?"
EVERYONE = frozenset(Role)
INSTRUCTORS = frozenset({Role.INSTRUCTOR})
_NOTHING = "There is no course '{}' for you."


class CourseAction(Action):
    """One address below ``courses/{course}``. ``kept`` and ``role`` are known when a method runs.

    ``roles``: what the asker must be in the course; ``admins``: whether who holds COURSES_MANAGE
    may ask, too (never for what lies in students' sessions). ``changers``: the same as ``roles``
    for what is no GET, where that takes more. Whoever may not gets 403, in the same words where
    there is no such course, and a line in the audit log.
    """

    parameters: ClassVar[dict[str, str]] = {"course": COURSE}
    roles: ClassVar[frozenset[Role]] = STAFF
    changers: ClassVar[frozenset[Role] | None] = None
    admins: ClassVar[bool] = True

    kept: KeptCourse
    role: Role | None = None  # None: an admin who is not in the course

    async def admit(self) -> None:
        """Let in who may ask; everyone else is in the audit log."""
        name = self.path_kwargs["course"]
        book, roles = self.parts.book, self.roles
        if self.changers is not None and self.request.method not in ("GET", "HEAD"):
            roles = self.changers
        try:
            found: Membership | None = await book.membership(self.person.name, name)
        except (NotAllowed, NotFound):
            found = None
        if found is not None and found.role in roles:
            self.kept, self.role = found.kept, found.role
            return
        if self.admins and self.may(COURSES_MANAGE):
            self.kept, self.role = await book.course(name), None
            return
        known = f"They are {found.role} there." if found else "They are not in it."
        await self.parts.audit(
            self,
            "denied",
            f"course {name}",
            outcome=Outcome.REFUSED,
            detail=f"{self._summary} {known}".strip(),
        )
        if found is None:
            raise NotAllowed(_NOTHING.format(name))
        needs = " or ".join(sorted(str(one) for one in roles))
        raise NotAllowed(f"You are {found.role} of this course; this takes its {needs}.")
