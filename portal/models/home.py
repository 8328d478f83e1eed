"""Parts of Home. Features and the portal itself add theirs (`home_parts`); the page names none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

Since = Callable[[], Awaitable[float]]
"""Returns the time of the user's last visit (Unix seconds)."""


class Place(IntEnum):
    """Places on Home, from the top. From ``NEXT`` on, parts stand beside the others if there is
    room."""

    TODAY = 1  # what others wait for
    NOW = 2
    PAST = 3
    NEXT = 4
    SITE = 5


class HomePart(NamedTuple):
    """Part of Home. ``name`` is unique; ``template`` shows what ``load`` returns, as ``content``;
    None: there is nothing to show, not even the title."""

    name: str
    title: str
    place: Place
    template: str
    load: Callable[[], Awaitable[Mapping[str, Any] | None]]
