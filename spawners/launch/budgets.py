"""GPU-hours that courses have used and may use."""

from __future__ import annotations

from portal.cache import SharedAnswers
from portal.models.course.course import Course
from portal.models.words import count
from portal.store import Store

_AGE = 30.0  # seconds for which a course's used GPU-hours are known


class Budgets:
    """Short-lived cache of the GPU-hours that courses have used: three hundred students start in
    the same minute. ``used`` never raises; while the database is away, the last answer stays."""

    def __init__(self, store: Store) -> None:
        of_course = store.usage.of_course
        self._used = SharedAnswers[str, float](of_course, ttl=_AGE, patience=1.0, first=0.0)

    async def used(self, course: str) -> float:
        """Return the GPU-hours of all sessions of the course until now."""
        return await self._used.for_key(course).get()

    async def spent(self, course: Course) -> str:
        """Return why the course has no GPUs any more; "" while it has."""
        if course.budget is None or await self.used(course.name) < course.budget:
            return ""
        hours = count(round(course.budget), "GPU-hour")
        return (
            f"The course '{course.title}' has used its {hours}, so its sessions have no GPUs. Ask "
            "its instructor."
        )
