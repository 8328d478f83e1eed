"""Courses, and what leads to them, that a user can go to by name."""

from __future__ import annotations

from collections.abc import Sequence

from portal.models.destination import Destination
from portal.models.person import Person
from portal.models.scope import COURSES_MANAGE
from portal.models.space import STAFF, SpaceState
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store


async def course_destinations(
    store: Store, memberships: MembershipCache, person: Person, prefix: str, *, creates: bool
) -> Sequence[Destination]:
    """Return the courses that the list of courses shows to this person, and that list for those who
    have a use for it. ``creates``: the person may create courses."""
    root = f"{prefix}courses"
    courses = {
        name: entry.stored
        for name, entry in (await memberships.mine(person.name)).items()
        if entry.role in STAFF or entry.stored.state is SpaceState.APPROVED
    }
    if person.may(COURSES_MANAGE):
        courses = {entry.name: entry for entry in await store.courses.all()}
    found = [
        Destination(kind="course", title=stored.course.title, detail=name, url=f"{root}/{name}")
        for name, stored in sorted(courses.items())
    ]
    if creates or found:
        found.append(Destination(kind="page", title="Courses", url=root))
    if creates:
        found.append(Destination(kind="action", title="New course", url=f"{root}/new"))
    return found
