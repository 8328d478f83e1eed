"""Places of the portal that a user can go to by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from . import Frozen

_GAPS = re.compile(r"[\W_]+")
Kind = Literal["page", "action", "session", "run", "course", "environment", "node"]


class Destination(Frozen):
    """Page, action or object with an address on this site. ``detail`` tells those with the same
    ``title`` apart."""

    kind: Kind
    title: str
    detail: str = ""
    url: str


def words_of(text: str) -> list[str]:
    """Return the words of a search."""
    return text.casefold().split()


def best(destinations: Iterable[Destination], text: str, most: int) -> list[Destination]:
    """Return those that contain all words of ``text``, at most ``most``: first those whose title
    begins with it, then those with a word in the title that does; otherwise in their order."""
    words = words_of(text)
    start = " ".join(words)

    def rank(destination: Destination) -> int:
        title = destination.title.casefold()
        if title.startswith(start):
            return 0
        return 1 if any(word.startswith(start) for word in _GAPS.split(title)) else 2

    fitting = [
        destination
        for destination in destinations
        if all(word in f"{destination.title} {destination.detail}".casefold() for word in words)
    ]
    return sorted(fitting, key=rank)[:most]
