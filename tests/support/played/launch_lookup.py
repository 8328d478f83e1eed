"""Lookup of a launch, which knows what a test gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from traitlets.config import Configurable

from portal.launch.course_space import CourseSpace
from portal.launch.kinds.kind import LaunchFacts, OtherLaunch, Place, SlurmLimits
from portal.models.catalog.environment import Environment
from portal.models.course.course import Course
from portal.models.space import Role


class PlayedLookup:
    """``record``: the row of any table, or the error of reading it; ``in_course``: the course that
    every kind in a course gets, with ``environments``' first; ``spawner``: settings of
    c.PortalSpawner."""

    def __init__(
        self,
        *environments: Environment,
        others: Sequence[OtherLaunch] = (),
        settings: Sequence[Configurable] = (),
        record: Any = None,
        slurm: SlurmLimits | None = None,
        folders: Sequence[str] = (),
        in_course: Course | None = None,
        gpus: bool = True,
        **spawner: Any,
    ) -> None:
        self.offered = {environment.name: environment for environment in environments}
        self.other, self.given = others, {type(made): made for made in settings}
        self.record, self.slurm, self.folders = record, slurm or SlurmLimits(), folders
        self.in_course, self.gpus, self.spawner = in_course, gpus, spawner

    async def environments(self) -> Mapping[str, Environment]:
        return self.offered

    async def home(self) -> str:
        return "/home/ada"

    def roots(self, environment: Environment) -> Sequence[str]:
        return self.folders

    def others(self) -> Sequence[OtherLaunch]:
        return self.other

    def settings(self, kind: type[Any]) -> Any:
        return self.given.get(kind) or kind()

    def setting(self, name: str) -> Any:
        return self.spawner[name]

    async def recorded(self, table: str, id_: str) -> Any:
        if isinstance(self.record, Exception):
            raise self.record
        return self.record

    async def slurm_limits(self) -> SlurmLimits:
        return self.slurm

    async def in_space(self, kind: Any, asked: Any, facts: LaunchFacts) -> Place:
        course, (name, environment) = self.in_course, next(iter(self.offered.items()))
        assert course is not None
        offered = kind.narrowed(environment, course, asked, gpus=self.gpus)
        space = CourseSpace(name="deep", title=course.title, role=Role.STUDENT)
        return Place({name: offered}, facts.snapshot, kind.model_copy(update={"space": space}))
