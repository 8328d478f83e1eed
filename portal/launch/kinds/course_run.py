"""Run of a course's session: judged and charged as that session is, in the course's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ...models.catalog.environment import Environment
from ...models.course.course import Course, KeptCourse, Role
from .course import CourseSession
from .course_kernel import kernel_environment
from .kind import AskedFor
from .run import Run, asked_run, asks_for_course


class CourseRun(Run, CourseSession):
    """Run for a session of ``course``. The course pins its environment."""

    estimated = True
    job_kernels = False

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        run = asked_run(options) if asks_for_course(options) else None
        return None if run is None else cls.trusted(run=run, course=run.course)

    @classmethod
    def closed(cls, kept: KeptCourse, role: Role, now: float) -> str:
        return super().closed(kept, role, now) or not_offered(kept.course)

    @classmethod
    def needs_gpus(cls, asked: AskedFor, course: Course) -> bool:
        return bool(asked.said().get("gpus", course.default.gpus))

    @classmethod
    def narrowed(
        cls, environment: Environment, course: Course, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        """Return what sessions have, on one node. Points with GPUs of a course whose sessions have
        none by default are on the nodes of its kernels."""
        if cls.needs_gpus(asked, course) and not course.default.gpus:
            return kernel_environment(environment, course, gpus=gpus)
        offered = super().narrowed(environment, course, asked, gpus=gpus)
        default = offered.default.model_copy(update={"nodes": 1})
        return offered.model_copy(update={"default": default})


def not_offered(course: Course) -> str:
    """Return why the course's sessions have no runs; "" if they have."""
    if course.runs:
        return ""
    return (
        f"The course '{course.title}' does not allow runs. Its instructor can allow them in the "
        "course's settings."
    )
