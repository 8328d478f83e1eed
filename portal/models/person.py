"""The person who makes a request."""

from __future__ import annotations

from . import Frozen


class Person(Frozen):
    """Person with a Hub account. ``groups`` are Hub group names (from the directory).

    ``scopes`` are those of this login or token, as the Hub reports them; a scope with a filter
    (``…!user=ada``) differs from the one without.
    """

    name: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset()

    def may(self, scope: str) -> bool:
        """Return True if this person holds ``scope`` without a filter."""
        return scope in self.scopes
