"""Schedule of a run: the run, and those of its chain before it, are repeated at a time of day."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from portal.models.clock import Clock, zones

from .. import Frozen
from .run import Notify, Run, RunId

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LONGEST_CHAIN = 20  # runs


def _a_zone(value: str) -> str:
    if value not in zones():
        raise ValueError(f"'{value}' is not a time zone; an example is 'Europe/Berlin'")
    return value


def _in_order(days: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(days)))


def _a_date(text: str) -> str:
    if text and not 2000 <= date.fromisoformat(text).year <= 2200:
        raise ValueError("the year must be from 2000 to 2200")
    return text


Zone = Annotated[
    str,
    StringConstraints(max_length=64),
    AfterValidator(_a_zone),
    Field(examples=["Europe/Berlin"]),
]
# 0: Monday.
Days = Annotated[
    tuple[Annotated[int, Field(ge=0, le=6)], ...],
    Field(min_length=1, max_length=7, examples=[[0, 1, 2, 3, 4]]),
    AfterValidator(_in_order),
]
LastDay = Annotated[
    str,
    StringConstraints(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"),
    AfterValidator(_a_date),
    Field(examples=["2027-02-28"]),
]


class ScheduleTimes(Frozen):
    """Times of a schedule: ``at`` this time of day in ``timezone``, on these ``days`` (0: Monday),
    the last one being ``until``; "": for ever."""

    at: Clock
    days: Days = (0, 1, 2, 3, 4, 5, 6)
    timezone: Zone
    until: LastDay = ""


class RunSchedule(ScheduleTimes):
    """Schedule as it is kept. Times are Unix seconds."""

    user: str
    id: RunId
    name: str
    runs: tuple[Run, ...]  # the originals, in the order in which they start
    notify: Notify = ()
    created_at: float
    next_at: float | None = None  # the next start; None: the schedule is paused or over
    starting_at: float | None = None  # time of the start that is being carried out
    last_at: float | None = None  # time of the last start
    last_runs: tuple[str, ...] = ()  # ids of the runs that were started last
    message: str = ""  # a sentence about a last time without a start
    refusals: int = 0  # of the last times, in a row
    paused: bool = False
    untold: str = ""  # a sentence that the user is still to get as mail
