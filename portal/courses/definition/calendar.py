"""Calendar of a course: its weekly times and single dates as meetings, in its own time zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from portal.models.course.course import Course

_DAY = timedelta(days=1)


@dataclass(frozen=True, order=True)
class Meeting:
    """A meeting, in Unix seconds; ``ends`` is the first second after it."""

    begins: float
    ends: float


def meetings(course: Course, since: float, until: float) -> list[Meeting]:
    """Return the meetings that are on at some moment from ``since`` to before ``until`` (Unix
    seconds), earliest first.

    A weekly 09:00 stays 09:00 local time across daylight saving changes. A time that clocks skip
    moves by the gap (02:30 becomes 03:30); of a time that occurs twice, the first is taken (PEP
    495, fold=0). Minutes are elapsed time. Holidays (``without``) cancel weekly meetings, not
    single ones. No meetings lie outside the course's dates.
    """
    zone = ZoneInfo(course.timezone)
    # A day more on both sides: a meeting that began yesterday may still be on.
    first = max(course.begins, _day(since, zone) - _DAY)
    last = min(course.ends, _day(until, zone) + _DAY)
    candidates = {
        Meeting(at, at + 60 * minutes)
        for day, clock, minutes in _times(course, first, last)
        for at in [moment(day, clock, zone)]
    }
    return sorted(
        meeting for meeting in candidates if meeting.ends > since and meeting.begins < until
    )


def all_meetings(course: Course) -> list[Meeting]:
    """Return every meeting of the course, earliest first."""
    zone = ZoneInfo(course.timezone)
    return meetings(
        course,
        moment(course.begins, "00:00", zone),
        moment(course.ends + _DAY, "00:00", zone),
    )


def moment(day: date, clock: str, zone: ZoneInfo) -> float:
    """Return the Unix time of "09:00" on a day; skipped or repeated times as in ``meetings``."""
    return datetime.combine(day, time.fromisoformat(clock), zone).timestamp()


def overlaps(
    own_meetings: Sequence[Meeting], other_meetings: Sequence[Meeting] | None = None
) -> list[tuple[Meeting, Meeting]]:
    """Return the pairs of meetings that overlap: one of ``own_meetings`` with one of
    ``other_meetings``, or two of ``own_meetings`` if ``other_meetings`` is None. Meetings that only
    touch do not overlap. Earliest pair first."""
    pairs: list[tuple[Meeting, Meeting]] = []
    marked = [(entry, True) for entry in own_meetings] + [
        (entry, False) for entry in other_meetings or ()
    ]
    marked.sort(key=lambda entry: entry[0])
    on: list[tuple[Meeting, bool]] = []
    for meeting, is_own in marked:
        on = [entry for entry in on if entry[0].ends > meeting.begins]
        for other, other_is_own in on:
            if other_meetings is None:
                pairs.append((other, meeting))
            elif is_own != other_is_own:
                pairs.append((meeting, other) if is_own else (other, meeting))
        on.append((meeting, is_own))
    return pairs


def _times(course: Course, first: date, last: date) -> Iterator[tuple[date, str, int]]:
    """Yield day, clock and minutes of each meeting from ``first`` to ``last``, both included."""
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
    """Return the date of a Unix time; next to the first or last date if no calendar has it."""
    try:
        return datetime.fromtimestamp(at, zone).date()
    except (OverflowError, ValueError, OSError):
        return date.max - _DAY if at > 0 else date.min + _DAY
