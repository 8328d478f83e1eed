"""JupyterLab, the default kind of session: a user's own, or a member's session of a course."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ...errors import InvalidRequest
from ..course import OPTION, course_named, server_for, server_of
from .kind import Kind
from .space import Space


class JupyterLab(Kind):
    """JupyterLab. In a course, its server is called ``prefix`` and the course."""

    name = "jupyterlab"
    title = "JupyterLab"
    prefix = "course"
    offered = True
    welcomes = True
    job_kernels = True  # in a course, where that allows them
    about = "Your session of the course. Your work stays in the course's folder in your home."

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        course = course_named(options.get(OPTION))
        # The server's name says which of a course's kinds it is.
        return cls(space=Space(name=course)) if course and cls is JupyterLab else None

    @classmethod
    def space_at(cls, server: str) -> str | None:
        named = server_of(server)
        return named.course if named is not None and named.kind == cls.prefix else None

    def beside(self, other: Kind) -> InvalidRequest:
        return InvalidRequest(
            f"A course has no separate {other.title}. Open it in the session.", OPTION
        )

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        if self.space is None:
            return super().at(server, owner)
        server_for(self.space.name, server)
        assert owner is not None
        return owner(space=self.space)

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        try:
            server_for("", server)
        except InvalidRequest as error:
            return error
        return super().not_free(server)

    def own(self) -> dict[str, Any]:
        return {} if self.space is None else {OPTION: self.space.name}
