"""The home page and the launch page are given a person's courses (``spawners.my_courses``)."""

from __future__ import annotations

from typing import Any

from jupyterhub import handlers
from jupyterhub.handlers.pages import HomeHandler, SpawnHandler

from portal.launch.course import server_of

from ..my_courses import courses_of
from ..shared import Shared
from .patch import Patch, replace_handlers

_PAGES = frozenset({"home.html", "spawn.html"})


class _WithCourses:
    """What both pages are given: ``courses``, and ``of_course``, which tells courses' servers."""

    config: Any

    def render_template(self, name: str, sync: bool = False, **ns: Any) -> Any:
        if sync or name not in _PAGES:
            return super().render_template(name, sync, **ns)  # type: ignore[misc]
        return self._rendered(name, ns)

    async def _rendered(self, name: str, ns: dict[str, Any]) -> str:
        person = ns.get("for_user") or ns.get("user") or self.current_user  # type: ignore[attr-defined]
        courses = await courses_of(Shared.of(self.config).book, person.name)
        more = {"courses": courses, "of_course": server_of}
        return str(await super().render_template(name, **ns, **more))  # type: ignore[misc]


class CourseHomeHandler(_WithCourses, HomeHandler):
    """The home page."""


class CourseSpawnHandler(_WithCourses, SpawnHandler):
    """The launch page."""


def apply() -> None:
    """Put these handlers in the place of JupyterHub's."""
    replace_handlers(
        (handlers.default_handlers,),
        {HomeHandler: CourseHomeHandler, SpawnHandler: CourseSpawnHandler},
    )


PATCH = Patch(
    name="course-pages",
    changes=(
        "jupyterhub.handlers.base:BaseHandler.render_template",
        "jupyterhub.handlers.pages:HomeHandler",
        "jupyterhub.handlers.pages:SpawnHandler",
    ),
    why="Correctness: what the pages show of courses is asked for when they are shown.",
    upstream="none",
    until="It can be asked for from the page (c.JupyterHub.template_vars).",
    apply=apply,
)
