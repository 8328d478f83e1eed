"""What a person likes and used last, and the order that follows for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portal.models.catalog.environment import Environment
from portal.store import Store


class Habits(NamedTuple):
    """``liked``: names of environments; ``used``: when each was launched last (Unix seconds)."""

    liked: frozenset[str] = frozenset()
    used: Mapping[str, float] = {}


NO_HABITS = Habits()


async def habits_of(store: Store, user: str) -> Habits:
    """What the database knows of this person. Raises StoreUnavailable."""
    liked = await store.favourites.of(user)
    return Habits(frozenset(liked), await store.sessions.last_used(user))


def ordered(environments: Sequence[Environment], habits: Habits) -> list[Environment]:
    """What is liked first, then what was used last, then the catalog's order."""

    def place(one: Environment) -> tuple[Any, ...]:
        liked = one.name not in habits.liked
        return (liked, -habits.used.get(one.name, 0.0), one.order, one.title, one.name)

    return sorted(environments, key=place)
