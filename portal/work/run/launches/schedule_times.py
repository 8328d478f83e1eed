"""Times of a schedule, in its own time zone. Pure."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from portal.models.session.run_schedule import ScheduleTimes

_DAY = timedelta(days=1)
_WEEK = 9  # days, of which each day of the week is one, whatever the time of day


def next_time(times: ScheduleTimes, after: float) -> float | None:
    """Return the first start after ``after`` (both Unix seconds); None if the last day is over.

    02:00 stays 02:00 when the clocks change. A time that they skip moves by the gap (02:30 becomes
    03:30); of a time that occurs twice, the first is taken (PEP 495, fold=0).
    """
    zone, clock = ZoneInfo(times.timezone), time.fromisoformat(times.at)
    last = date.fromisoformat(times.until) if times.until else date.max
    day = datetime.fromtimestamp(after, zone).date() - _DAY
    for _ in range(_WEEK):
        if day > last:
            return None
        at = datetime.combine(day, clock, zone).timestamp()
        if day.weekday() in times.days and at > after:
            return at
        day += _DAY
    return None


def newest_time(times: ScheduleTimes, planned: float, now: float) -> float:
    """Return the newest start that is not after ``now``: ``planned``, or a later one if the service
    was not there for days. All are Unix seconds."""
    latest = planned
    # At most a day and a week before now; a year of missed days is not gone through one by one.
    since = max(planned, now - _WEEK * _DAY.total_seconds())
    while (following := next_time(times, since)) is not None and following <= now:
        latest = since = following
    return latest


def time_words(times: ScheduleTimes, at: float) -> str:
    """Return a start as "02:00 on Monday, 23 November" in the time zone of the schedule."""
    local = datetime.fromtimestamp(at, ZoneInfo(times.timezone))
    return f"{local:%H:%M} on {local:%A}, {local.day} {local:%B}"
