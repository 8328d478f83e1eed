"""Base of the kinds whose jobs have no server: a session requests them, and knows each by an id."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import ClassVar

from ...errors import InvalidRequest
from .kind import Kind

# JupyterHub's names of servers have 30 characters (jupyterhub/slugs.py): of an id, they have the
# first 20 of its digits.
_DIGITS = 20


class KindById(Kind):
    """Kind whose servers are called by its ``prefix`` and the beginning of an id; ``noun``: what
    has the id."""

    noun: ClassVar[str]
    serves = False

    @property
    @abstractmethod
    def id_(self) -> str:
        """Its id."""

    @classmethod
    def server_name(cls, id_: str) -> str:
        """Return the name of the server of this id."""
        return f"{cls.prefix}-{id_.replace('-', '')[:_DIGITS]}"

    def own_server(self) -> str:
        """Return the name of its server."""
        return self.server_name(self.id_)

    @classmethod
    def space_at(cls, server: str) -> str | None:
        return "" if re.fullmatch(rf"{cls.prefix}-[0-9a-f]{{8,{_DIGITS}}}", server) else None

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        own = self.own_server()
        if server != own:
            raise InvalidRequest(
                f"This {self.noun} must have the name '{own}', not '{server[:60]}'.", self.option
            )
        return self
