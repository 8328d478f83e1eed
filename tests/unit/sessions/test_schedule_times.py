"""Times of schedules: days, time zones, changes of the clocks, the last day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from portal.models.session.run_schedule import ScheduleTimes
from portal.work.run.launches.schedule_times import newest_time, next_time, time_words


def at(text: str) -> float:
    """Unix seconds of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def times(clock: str = "02:30", zone: str = "Europe/Berlin", **more: Any) -> ScheduleTimes:
    return ScheduleTimes(at=clock, timezone=zone, **more)


def starts(of: ScheduleTimes, after: str, number: int) -> list[str]:
    moment: float | None = at(after)
    found = []
    while len(found) < number and (moment := next_time(of, moment or 0.0)) is not None:
        found.append(datetime.fromtimestamp(moment, UTC).isoformat(" ", "minutes")[:16])
    return found


def test_each_day() -> None:
    assert starts(times(zone="UTC"), "2026-11-23 02:29", 2) == [
        "2026-11-23 02:30",
        "2026-11-24 02:30",
    ]
    assert starts(times(zone="UTC"), "2026-11-23 02:30", 1) == ["2026-11-24 02:30"]
    # It is already the next day in Auckland.
    assert starts(times(zone="Pacific/Auckland"), "2026-11-23 12:00", 1) == ["2026-11-23 13:30"]


def test_single_days_of_the_week() -> None:
    monday_and_friday = times(zone="UTC", days=(4, 0, 0))
    assert monday_and_friday.days == (0, 4)
    assert starts(monday_and_friday, "2026-11-23 03:00", 3) == [
        "2026-11-27 02:30",
        "2026-11-30 02:30",
        "2026-12-04 02:30",
    ]


def test_a_time_that_the_clocks_skip_moves_by_the_gap() -> None:
    assert starts(times(), "2026-03-28 00:00", 3) == [
        "2026-03-28 01:30",  # 02:30, UTC+1
        "2026-03-29 01:30",  # 03:30, UTC+2: there is no 02:30
        "2026-03-30 00:30",  # 02:30, UTC+2
    ]


def test_a_time_that_occurs_twice_is_served_once() -> None:
    assert starts(times(), "2026-10-24 00:00", 3) == [
        "2026-10-24 00:30",  # 02:30, UTC+2
        "2026-10-25 00:30",  # the first of both
        "2026-10-26 01:30",  # 02:30, UTC+1
    ]


def test_the_last_day() -> None:
    until = times(zone="UTC", until="2026-11-24")
    assert starts(until, "2026-11-23 00:00", 5) == ["2026-11-23 02:30", "2026-11-24 02:30"]
    assert next_time(until, at("2027-11-24 00:00")) is None
    weekly = times(zone="UTC", days=(0,), until="2026-11-29")
    assert starts(weekly, "2026-11-23 03:00", 5) == []


@pytest.mark.parametrize(
    ("now", "newest"),
    [
        ("2026-11-23 02:31", "2026-11-23 02:30"),
        ("2026-11-25 02:29", "2026-11-24 02:30"),
        ("2027-11-25 02:31", "2027-11-25 02:30"),
    ],
)
def test_of_missed_times_the_newest_counts(now: str, newest: str) -> None:
    assert newest_time(times(zone="UTC"), at("2026-11-23 02:30"), at(now)) == at(newest)


def test_words() -> None:
    assert time_words(times(), at("2026-11-23 01:30")) == "02:30 on Monday, 23 November"


@pytest.mark.parametrize(
    "change",
    [
        {"at": "24:00"},
        {"at": "2:30"},
        {"at": "02:30; id"},
        {"days": ()},
        {"days": (7,)},
        {"days": (0,) * 8},
        {"timezone": "Europe/Nowhere"},
        {"timezone": "../../etc/passwd"},
        {"until": "2026-02-30"},
        {"until": "tomorrow"},
        {"until": "0001-01-01"},
    ],
    ids=str,
)
def test_hostile_times_are_refused(change: Any) -> None:
    with pytest.raises(ValidationError):
        ScheduleTimes(**{"at": "02:30", "timezone": "UTC", **change})
