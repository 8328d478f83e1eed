"""``api/v1/courses/{course}/usage`` and ``…/readiness``: what a course has used and will need."""

from __future__ import annotations

from collections.abc import Sequence

from portal.courses.definition.readiness import Readiness
from portal.courses.definition.usage import PersonUsage, usage_of
from portal.models import Frozen
from portal.work.course.parts import CourseParts

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Operation
from .access import CourseAction


class CourseUsageList(Frozen):
    """Usage by person, sorted by name.

    ``gpu_hours`` of all of them, against ``budget`` (null: none is set). ``simulated``: the site's
    telemetry is invented, and so is what was used.
    """

    items: tuple[PersonUsage, ...]
    gpu_hours: float
    budget: float | None
    simulated: bool


class CourseUsage(CourseAction):
    """Usage of a course."""

    path = "courses/{course}/usage"

    @Operation("GPU-hours and sessions of a course, by user.")
    async def on_get(self, course: str) -> CourseUsageList:
        """Return everyone in it, and everyone who had a session of it."""
        items = await usage_of(self.parts.store, self.stored)
        return CourseUsageList(
            items=tuple(items),
            gpu_hours=sum(item.gpu_hours for item in items),
            budget=self.stored.course.budget,
            simulated=self.parts.telemetry.simulated,
        )


class CourseUsageCsv(CourseAction, CsvEndpoint):
    """Usage of a course, as a file."""

    path = "courses/{course}/usage.csv"
    columns = tuple(PersonUsage.model_fields)
    times = frozenset({"last_at"})

    @Operation("GPU-hours and sessions of a course, by user, as CSV.", media=MEDIA)
    async def rows(self) -> Sequence[PersonUsage]:
        return await usage_of(self.parts.store, self.stored)

    async def on_get(self, course: str) -> None:  # type: ignore[override]
        """Return a header and a line for each person."""
        await self.send(f"{course}-usage.csv")


class CourseReadiness(CourseAction):
    """Obstacles to a course's meetings."""

    path = "courses/{course}/readiness"

    @Operation("The readiness of a course.")
    async def on_get(self, course: str) -> Readiness:
        """Compare demand with supply.

        The answer also lists people without a Slurm account or a home, and what else is on at the
        same time. A check that is impossible now says so.
        """
        return await self.parts_for(CourseParts).readiness.check_course(self.stored)


ENDPOINTS = (CourseUsage, CourseUsageCsv, CourseReadiness)
