"""When a course meets, through changes of the clocks."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from stored_courses import a_course

from portal.courses.definition.calendar import Meeting, all_meetings, meetings, overlaps
from portal.models.course.course import Course, SingleTime, WeeklyTime

BERLIN = "Europe/Berlin"


def course(**more: object) -> Course:
    usual = {"timezone": BERLIN, "begins": "2026-03-01", "ends": "2026-04-30"}
    return a_course(**{**usual, **more})


def local(meeting: Meeting, zone: str = BERLIN) -> str:
    return datetime.fromtimestamp(meeting.begins, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %z")


def test_nine_o_clock_stays_nine_o_clock_through_both_changes() -> None:
    monday = WeeklyTime(day=0, begins="09:00", minutes=90)
    spring = all_meetings(course(weekly=(monday,)))
    assert [local(one) for one in spring][3:5] == [
        "2026-03-23 09:00 +0100",
        "2026-03-30 09:00 +0200",
    ]
    assert len(spring) == 9
    autumn = course(weekly=(monday,), begins="2026-10-19", ends="2026-10-26")
    assert [local(one) for one in all_meetings(autumn)] == [
        "2026-10-19 09:00 +0200",
        "2026-10-26 09:00 +0100",
    ]
    assert {one.ends - one.begins for one in spring} == {90 * 60}


def test_a_time_that_is_not_or_that_is_twice() -> None:
    gone = course(single=[{"date": "2026-03-29", "begins": "02:30", "minutes": 60}])
    (one,) = all_meetings(gone)
    assert local(one) == "2026-03-29 03:30 +0200"
    twice = course(
        begins="2026-10-01",
        ends="2026-10-31",
        single=[{"date": "2026-10-25", "begins": "02:30", "minutes": 60}],
    )
    (one,) = all_meetings(twice)
    assert local(one) == "2026-10-25 02:30 +0200"  # the first of the two
    assert one.ends - one.begins == 3600


def test_a_meeting_over_a_change_takes_its_minutes() -> None:
    night = course(single=[{"date": "2026-03-28", "begins": "23:00", "minutes": 300}])
    (one,) = all_meetings(night)
    ends = datetime.fromtimestamp(one.ends, ZoneInfo(BERLIN))
    assert ends.strftime("%d %H:%M") == "29 05:00"  # 23:00 + 5 hours, one of which is left out


def test_holidays_take_weekly_times_and_not_single_ones() -> None:
    monday = WeeklyTime(day=0, begins="09:00", minutes=60)
    extra = SingleTime(date=date(2026, 4, 6), begins="14:00", minutes=60)
    found = all_meetings(course(weekly=(monday,), single=(extra,), without=(date(2026, 4, 6),)))
    days = [local(one)[:16] for one in found]
    assert "2026-04-06 09:00" not in days
    assert "2026-04-06 14:00" in days


def test_nothing_outside_of_the_course_and_nothing_twice() -> None:
    same = SingleTime(date=date(2026, 3, 2), begins="09:00", minutes=60)
    late = SingleTime(date=date(2026, 5, 2), begins="09:00", minutes=60)
    monday = WeeklyTime(day=0, begins="09:00", minutes=60)
    found = all_meetings(course(weekly=(monday,), single=(same, same, late)))
    assert len(found) == 9
    assert found == sorted(set(found))


def test_of_a_span_what_is_on_at_some_moment_of_it() -> None:
    monday = WeeklyTime(day=0, begins="09:00", minutes=60)
    first = all_meetings(one := course(weekly=(monday,)))[0]
    assert meetings(one, first.begins + 10, first.begins + 20) == [first]
    assert meetings(one, first.ends, first.ends + 60) == []
    assert meetings(one, first.begins - 60, first.begins) == []
    assert meetings(one, first.begins - 60, first.begins + 1) == [first]
    assert len(meetings(one, float("-inf"), float("inf"))) == 9
    assert len(meetings(one, 0, 1e18)) == 9
    # One that began on the day before.
    night = course(weekly=[{"day": 0, "begins": "23:30", "minutes": 120}])
    begun = all_meetings(night)[0]
    assert meetings(night, begun.ends - 1, begun.ends) == [begun]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
def test_days_are_the_course_s_own(zone: str) -> None:
    found = all_meetings(
        course(
            timezone=zone,
            begins="2026-03-02",
            ends="2026-03-02",
            weekly=[{"day": 0, "begins": "00:00", "minutes": 60}],
        )
    )
    assert [local(one, zone)[:16] for one in found] == ["2026-03-02 00:00"]


def test_overlaps_of_one_course_and_of_two() -> None:
    a, b, c, d = Meeting(0, 10), Meeting(5, 20), Meeting(20, 30), Meeting(25, 26)
    assert overlaps([d, c, b, a]) == [(a, b), (c, d)]
    assert overlaps([a, c], [b, d]) == [(a, b), (c, d)]
    assert overlaps([a], []) == []
    assert overlaps([a, b], [Meeting(30, 40)]) == []
    assert overlaps([a], [a]) == [(a, a)]
