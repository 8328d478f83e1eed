"""Paging of lists: the query parameters of a client, and the envelope of every list."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from portal.errors import InvalidRequest
from portal.models import Frozen

from .endpoint import Query

T = TypeVar("T")

MOST = 500  # items of one page
_CURSOR = re.compile(r"o([0-9]{1,9})")


class PageQuery(Query):
    """Query parameters that every list takes."""

    limit: Annotated[
        int, Field(ge=1, le=MOST, description="Maximum number of items; default 50.")
    ] = 50
    after: Annotated[
        str | None,
        Field(
            max_length=100,
            description="'next' of the previous page; an opaque value.",
        ),
    ] = None

    @property
    def offset(self) -> int:
        """Number of items before the page. Raises InvalidRequest."""
        return offset_of(self.after)


class Page(Frozen, Generic[T]):
    """Page of a list. ``next`` is the ``after`` of the page that follows; null at the end.

    ``total`` counts the whole list, with the same filters.
    """

    items: tuple[T, ...]
    next: str | None
    total: int


def offset_of(after: str | None) -> int:
    """Return the number of items before the page; 0 without a cursor.

    Raises InvalidRequest for anything that was not a ``next`` of this service.
    """
    if after is None:
        return 0
    try:
        text = base64.urlsafe_b64decode(after.encode("ascii") + b"=" * (-len(after) % 4))
        match = _CURSOR.fullmatch(text.decode("ascii"))
    except (binascii.Error, ValueError):  # UnicodeError is a ValueError
        match = None
    if not match or cursor(int(match[1])) != after:
        raise InvalidRequest(
            "'after' is not the 'next' of a page. Omit it to get the first page.", "after"
        )
    return int(match[1])


def cursor(offset: int) -> str:
    """Return the opaque text that ``offset_of`` reads."""
    return base64.urlsafe_b64encode(f"o{offset}".encode()).decode().rstrip("=")


def page(items: Sequence[T], query: PageQuery, total: int) -> Page[T]:
    """Return the envelope of ``items``: the page that ``query`` asks for, of ``total`` in all."""
    end = query.offset + len(items)
    more = bool(items) and end < total
    return Page(items=tuple(items), next=cursor(end) if more else None, total=total)


def page_of(items: Sequence[T], query: PageQuery) -> Page[T]:
    """Return the page of the whole list ``items`` that ``query`` asks for."""
    return page(items[query.offset : query.offset + query.limit], query, len(items))
