"""Times of day, and time zones."""

from __future__ import annotations

from functools import cache
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import StringConstraints

Clock = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]  # "09:00"


@cache  # it walks a tree of the file system
def zones() -> frozenset[str]:
    """Return the names of the time zones that this machine knows."""
    return frozenset(available_timezones())
