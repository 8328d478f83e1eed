"""Kernel in a job of its own, of a course's session: judged and charged as that session is.

It sees what the session sees, the course's folder and nothing else of its owner, since helpers are
let into the session, and can run cells there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ...errors import InvalidRequest, NotAllowed
from ...models.catalog.environment import Environment
from ...models.course.course import Course, KeptCourse, Role
from ..course import narrowed
from .course import CourseSession
from .job_kernel import OPTION, JobKernel, asked_kernel
from .kind import AskedFor, Hub, Kind, LaunchFacts, Place

_FEW = (
    "In a course, a kernel in a job of its own needs at least one GPU. For work on CPUs, choose "
    "one of the session's kernels."
)


class CourseKernel(JobKernel, CourseSession):
    """Job kernel for a session of ``course``."""

    estimated = True
    job_kernels = False

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        kernel = asked_kernel(options)
        if kernel is None or not kernel.course:
            return None
        return cls(id=kernel.id, kernel=kernel.name, course=kernel.course)

    def beside(self, other: Kind) -> InvalidRequest:
        return Kind.beside(self, other)

    @classmethod
    def closed(cls, kept: KeptCourse, role: Role, now: float) -> str:
        return super().closed(kept, role, now) or not_offered(kept.course)

    async def place(self, asked: AskedFor, hub: Hub, facts: LaunchFacts) -> Place:
        self.check_chosen(asked)
        place = await super().place(asked, hub, facts)
        if any(environment.max_gpus == 0 for environment in place.environments.values()):
            raise NotAllowed(
                "The environment of this course has no GPUs, so the course has no such kernels."
            )
        return place

    def own(self) -> dict[str, Any]:
        return {OPTION: {"id": self.id, "name": self.kernel, "course": self.course}}

    @classmethod
    def check_chosen(cls, asked: AskedFor) -> None:
        """Raise NotAllowed for a kernel without GPUs: those would add CPUs to a session's without
        any limit of the course."""
        if asked.said().get("gpus") == 0:
            raise NotAllowed(_FEW)

    @classmethod
    def needs_gpus(cls, asked: AskedFor, course: Course) -> bool:
        return True

    @classmethod
    def narrowed(
        cls, environment: Environment, course: Course, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        return kernel_environment(environment, course, gpus=gpus)


def not_offered(course: Course) -> str:
    """Return why the course's sessions have no kernels in jobs of their own; "" if they have."""
    if not course.job_kernels:
        return (
            f"The course '{course.title}' does not allow kernels in jobs of their own. Its "
            "instructor can allow them in the course's settings."
        )
    if not max(course.default.gpus, course.largest.gpus):
        return f"The course '{course.title}' has no GPUs, so it has no kernels with GPUs."
    return ""


def kernel_environment(
    environment: Environment, course: Course, *, gpus: bool = True
) -> Environment:
    """Return ``environment`` as the course allows it to kernels: as to its sessions, with one GPU
    on one node by default. ``gpus`` False: none at all, the budget is used up.

    Where sessions have no GPUs by default, their partition and node features are not those of the
    kernels, which have the ones of the course's maximum, or what the launch finds.
    """
    offered = narrowed(environment, course, gpus=gpus)
    usual: dict[str, Any] = {"gpus": 1, "nodes": 1}
    for name in ("partition", "constraint"):
        own, largest = getattr(course.default, name), getattr(course.largest, name)
        if largest or (own and not course.default.gpus):
            usual[name] = largest
    default = offered.default.model_copy(update=usual)
    return offered.model_copy(update={"default": default})
