"""When a course meets: its weekly times and single dates as moments, in its own time zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from portal.models.course.course import Course

_DAY = timedelta(days=1)


@dataclass(frozen=True, order=True)
class Meeting:
    """One meeting, in Unix seconds; ``ends`` is the first second after it."""

    begins: float
    ends: float


def meetings(course: Course, since: float, until: float) -> list[Meeting]:
    """The meetings that are on at some moment from ``since`` to before ``until`` (Unix seconds),
    the earliest first.

    A meeting at 09:00 is at 09:00 of the course's clocks all the term. Where clocks go forward
    over its time, it begins as long after the change as it would have begun after the hour that is
    left out (02:30 becomes 03:30); where they go back over it, at the first of the two times
    (PEP 495, fold=0). It takes its minutes, whatever the clocks do meanwhile. Holidays
    (``without``) take weekly times away, not single ones. Outside the course's dates is nothing.
    """
    zone = ZoneInfo(course.timezone)
    # A day more on both sides: a meeting that began yesterday may be on.
    first = max(course.begins, _day(since, zone) - _DAY)
    last = min(course.ends, _day(until, zone) + _DAY)
    found = {
        Meeting(at, at + 60 * minutes)
        for day, clock, minutes in _times(course, first, last)
        for at in [moment(day, clock, zone)]
    }
    return sorted(one for one in found if one.ends > since and one.begins < until)


def all_meetings(course: Course) -> list[Meeting]:
    """Every meeting of the course, the earliest first."""
    zone = ZoneInfo(course.timezone)
    return meetings(
        course,
        moment(course.begins, "00:00", zone),
        moment(course.ends + _DAY, "00:00", zone),
    )


def moment(day: date, clock: str, zone: ZoneInfo) -> float:
    """The Unix time of "09:00" on a day; where that is not or is twice, as ``meetings`` says."""
    return datetime.combine(day, time.fromisoformat(clock), zone).timestamp()


def overlaps(
    mine: Sequence[Meeting], theirs: Sequence[Meeting] | None = None
) -> list[tuple[Meeting, Meeting]]:
    """Pairs that are on at the same time: one of ``mine`` with one of ``theirs``, or two of
    ``mine`` where nothing else is given. Meetings that only touch do not overlap. The earliest
    pair stands first."""
    pairs: list[tuple[Meeting, Meeting]] = []
    marked = [(one, True) for one in mine] + [(one, False) for one in theirs or ()]
    marked.sort(key=lambda one: one[0])
    on: list[tuple[Meeting, bool]] = []
    for meeting, is_mine in marked:
        on = [one for one in on if one[0].ends > meeting.begins]
        for other, other_is_mine in on:
            if theirs is None:
                pairs.append((other, meeting))
            elif is_mine != other_is_mine:
                pairs.append((meeting, other) if is_mine else (other, meeting))
        on.append((meeting, is_mine))
    return pairs


def _times(course: Course, first: date, last: date) -> Iterator[tuple[date, str, int]]:
    """Day, clock and minutes of each meeting from one day to another, both included."""
    left_out = set(course.without)
    for weekly in course.weekly:
        day = first + timedelta(days=(weekly.day - first.weekday()) % 7)
        while day <= last:
            if day not in left_out:
                yield day, weekly.begins, weekly.minutes
            day += timedelta(weeks=1)
    for single in course.single:
        if first <= single.date <= last:
            yield single.date, single.begins, single.minutes


def _day(at: float, zone: ZoneInfo) -> date:
    """The day of a moment; the first or last that there is, for one out of every calendar."""
    try:
        return datetime.fromtimestamp(at, zone).date()
    except (OverflowError, ValueError, OSError):
        return date.max - _DAY if at > 0 else date.min + _DAY
