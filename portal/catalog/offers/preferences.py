"""Favourites and last launches of a user, and the resulting order of environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portal.models.catalog.environment import Environment
from portal.store import Store


class Preferences(NamedTuple):
    """Preferences. ``liked``: names; ``used``: time of the last launch by name (Unix seconds)."""

    liked: frozenset[str] = frozenset()
    used: Mapping[str, float] = {}


NO_PREFERENCES = Preferences()


async def preferences_of(store: Store, user: str) -> Preferences:
    """Read the user's preferences from the database. Raises StoreUnavailable."""
    liked = await store.favourites.of_user(user)
    return Preferences(frozenset(liked), await store.sessions.last_used(user))


def ordered(environments: Sequence[Environment], preferences: Preferences) -> list[Environment]:
    """Sort favourites first, then by last use, then in the catalog's order."""

    def place(environment: Environment) -> tuple[Any, ...]:
        not_liked = environment.name not in preferences.liked
        return (
            not_liked,
            -preferences.used.get(environment.name, 0.0),
            environment.order,
            environment.title,
            environment.name,
        )

    return sorted(environments, key=place)
