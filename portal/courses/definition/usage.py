"""Usage of a course by person, against its budget."""

from __future__ import annotations

from portal.models import Frozen
from portal.models.course.course import StoredCourse
from portal.models.space import Role
from portal.store import Store


class PersonUsage(Frozen):
    """A person's sessions of a course, and their GPU-hours: held, and of the measured part used
    and idle (None: not measured). ``role`` is null for a former member.

    ``last_at``: Unix time at which the last session was requested; None: never.
    """

    person: str
    role: Role | None
    sessions: int = 0
    gpu_hours: float = 0.0
    used_hours: float | None = None
    idle_hours: float | None = None
    last_at: float | None = None


async def usage_of(store: Store, stored: StoredCourse) -> list[PersonUsage]:
    """Return the usage of members and of others with sessions, by name. Raises
    StoreUnavailable."""
    roles = {member.person: member.role for member in await store.members.of_space(stored.name)}
    counted = await store.sessions.counted(stored.name)
    hours = {row.key: row for row in await store.usage.by_person(stored.name)}
    usage = []
    for person in sorted(roles.keys() | counted.keys() | hours.keys()):
        sessions, last_at = counted.get(person, (0, None))
        row = hours.get(person)
        usage.append(
            PersonUsage(
                person=person,
                role=roles.get(person),
                sessions=max(sessions, row.jobs if row else 0),  # old sessions are forgotten
                gpu_hours=row.held_hours if row else 0.0,
                used_hours=row.used_hours if row else None,
                idle_hours=row.idle_hours if row else None,
                last_at=last_at,
            )
        )
    return usage
