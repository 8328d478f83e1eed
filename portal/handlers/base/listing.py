"""Filters and orders of lists held in memory.

They work on what the viewer may see, so that neither reveals more than the list itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, TypeVar

from pydantic import Field

from .paging import Page, PageQuery, page_of

T = TypeVar("T")

Words = Annotated[
    str | None, Field(max_length=1000, description="One or more values, separated by commas.")
]
Text = Annotated[
    str | None, Field(max_length=200, description="Text contained in the displayed fields.")
]

_NUMBERS = re.compile(r"(\d+)")


def among(words: str) -> frozenset[str]:
    """Return the words of a filter, in lower case."""
    return frozenset(word.strip().casefold() for word in words.split(","))


@lru_cache(maxsize=1 << 16)  # job ids and names of nodes are the same at each refresh
def natural(text: str) -> tuple[Any, ...]:
    """Return a sort key that puts gpu2 before gpu10."""
    return tuple(
        (1, int(part), "") if part.isdecimal() else (0, 0, part)
        for part in _NUMBERS.split(text)
        if part
    )


def found(text: str) -> Callable[..., bool]:
    """Return a predicate: True if one of the given values contains ``text``, ignoring case."""
    wanted = text.casefold()
    return lambda *values: any(value and wanted in str(value).casefold() for value in values)


def ordered(items: Iterable[T], sort: str) -> list[T]:
    """Sort ``items`` by the field that ``sort`` names, in descending order with a "-".

    Values unknown or hidden from this viewer are last either way. The sort is stable.
    """
    get = attrgetter(sort.removeprefix("-"))
    items = list(items)
    known = [item for item in items if get(item) is not None and get(item) != ()]
    unknown = [item for item in items if get(item) is None or get(item) == ()]
    text = bool(known) and isinstance(get(known[0]), str)
    known.sort(key=(lambda item: natural(get(item))) if text else get, reverse=sort.startswith("-"))
    return known + unknown


def matching(items: Sequence[T], query: Any, names: Iterable[str]) -> Sequence[T]:
    """Return the ``items`` whose fields are among the words that ``query`` has for them.

    A filter that is not given lets all through.
    """
    for name in names:
        words = getattr(query, name)
        if words:
            wanted, get = among(words), attrgetter(name)
            items = [item for item in items if (get(item) or "").casefold() in wanted]
    return items


async def paged(select: Callable[..., Sequence[T]], *arguments: Any, query: PageQuery) -> Page[T]:
    """Return the page that ``query`` asks for of what ``select(*arguments, query)`` finds.

    ``select`` runs in a thread, since a list may have thousands of items.
    """
    return page_of(await asyncio.to_thread(select, *arguments, query), query)
