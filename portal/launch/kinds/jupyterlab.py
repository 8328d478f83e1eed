"""JupyterLab, the default kind of session: a user's own, or a member's session in a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ...errors import InvalidRequest
from ...spaces.registry import requested_space, space_type_at
from .kind import Kind


class JupyterLab(Kind):
    """JupyterLab. In a space, the space says what its server is called."""

    name = "jupyterlab"
    title = "JupyterLab"
    offered = True
    welcomes = True
    programs = True  # of its user alone
    job_kernels = True  # in a space, where that allows them

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        space = requested_space(options)
        # The server's name says which of a space's kinds it is.
        return cls(space=space) if space.name and cls is JupyterLab else None

    @classmethod
    def space_at(cls, server: str) -> str | None:
        type_ = space_type_at(server)
        reserved = type_.reserves(server) if type_ is not None else None
        return reserved.space if reserved is not None and reserved.work == cls.name else None

    def beside(self, other: Kind) -> InvalidRequest:
        return InvalidRequest(
            f"A {self.space.noun} has no separate {other.title}. Open it in the session.",
            self.space.option,
        )

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        if not self.space.name:
            return super().at(server, owner)
        self.space.check_server(server)
        if owner is None:  # the names of such sessions are free
            return self
        reserving = space_type_at(server)
        if reserving is None or not isinstance(self.space, reserving):
            raise owner.not_free(server)
        return owner(space=self.space)

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        type_ = space_type_at(server)
        return super().not_free(server) if type_ is None else type_.not_free(server)

    def own(self) -> dict[str, Any]:
        return self.space.own()
