"""The person who launches."""

from __future__ import annotations

from . import Frozen


class Person(Frozen):
    """Someone with a Hub account. ``groups`` are Hub group names (from the directory)."""

    name: str
    admin: bool = False
    groups: tuple[str, ...] = ()
