"""The person who asks."""

from __future__ import annotations

from . import Frozen


class Person(Frozen):
    """Someone with a Hub account. ``groups`` are Hub group names (from the directory).

    ``scopes`` are what the Hub says that this login or token may do; a scope with a filter
    (``…!user=ada``) is another word than the one without.
    """

    name: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset()

    def may(self, scope: str) -> bool:
        """Whether this person holds ``scope`` without a filter."""
        return scope in self.scopes
