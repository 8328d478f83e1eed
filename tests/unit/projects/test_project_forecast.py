"""Forecasts of budgets, by arithmetic on known usage."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from portal.projects.money.forecast import (
    DAY,
    WEEK,
    budget_use,
    end_of,
    pace_start,
    used_up_at,
    weekly_pace,
)

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()


def test_the_pace_is_of_seven_days_of_which_today_is_one() -> None:
    assert pace_start(NOON) == datetime(2026, 11, 23, tzinfo=UTC).timestamp()
    # 13 hours in 6.5 days are 2 a day.
    assert weekly_pace(13, NOON) == pytest.approx(14)
    assert weekly_pace(0, NOON) == 0


def test_a_new_project_has_the_pace_of_its_own_days() -> None:
    assert weekly_pace(8, NOON, NOON - 2 * DAY) == pytest.approx(28)
    assert weekly_pace(8, NOON, NOON - 60) == pytest.approx(56)  # not 8 hours a minute
    assert weekly_pace(13, NOON, NOON - 100 * DAY) == pytest.approx(14)


@pytest.mark.parametrize(
    "limit, used, weekly, left",
    [
        (100, 30, 14, 35 * DAY),
        (100, 99, 7, DAY),
        (100, 100, 14, 0),
        (100, 140, 14, 0),
        (0, 0, 0, 0),  # nothing was ever to use
        (100, 0, 0, None),  # nothing is used
        (100, 30, 0, None),
        (1e9, 0, 1e-3, None),  # in ten thousand years
    ],
)
def test_how_long_a_limit_lasts(
    limit: float, used: float, weekly: float, left: float | None
) -> None:
    until = used_up_at(limit, used, weekly, NOON)
    assert until is None if left is None else until == pytest.approx(NOON + left)


@pytest.mark.parametrize("limit, used, weekly", [(100, 20, 100), (60, 55, 70), (500, 0, 400)])
def test_a_use_that_slurm_forgets_reaches_its_limit_later(
    limit: float, used: float, weekly: float
) -> None:
    """Compared with steps of a minute: the use grows by the pace and is halved in a week."""
    step, keeps, at, use = 60.0, 0.5 ** (60.0 / WEEK), 0.0, used
    while use < limit:
        use = use * keeps + weekly / WEEK * step
        at += step
    until = used_up_at(limit, used, weekly, NOON, WEEK)
    assert until is not None and until - NOON == pytest.approx(at, rel=1e-3)
    straight = used_up_at(limit, used, weekly, NOON)
    assert straight is not None and until > straight


def test_a_limit_above_the_level_of_the_use_is_never_reached() -> None:
    # At 100 hours a week and a half-life of a week, the use stays below 144.3 (100 / ln 2).
    assert used_up_at(145, 20, 100, NOON, WEEK) is None
    assert used_up_at(144, 20, 100, NOON, WEEK) is not None
    assert used_up_at(100, 100, 0, NOON, WEEK) == NOON


def test_a_budget() -> None:
    use = budget_use(100, 30, 14, NOON)
    assert (use.used, use.weekly, use.until) == (30, 14, pytest.approx(NOON + 35 * DAY))
    assert budget_use(None, 30, 14, NOON).until is None


def test_a_project_ends_with_its_last_day() -> None:
    last = date(2026, 11, 29)
    end = datetime.fromtimestamp(end_of(last))
    assert end == datetime(2026, 11, 29) + timedelta(days=1)
