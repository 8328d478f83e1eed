"""Entries: who need not be asked, for which session, for how long and how often."""

from __future__ import annotations

import pytest
from still_clock import StillClock

from spawners.web.entries import LASTS, MOST, Entries

SESSION = ("grace", "ada", "lab")


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def entries(clock: StillClock) -> Entries:
    return Entries(clock)


def test_an_entry_is_used_once(entries: Entries) -> None:
    assert not entries.use(*SESSION)
    entries.admit(*SESSION)
    entries.admit(*SESSION)  # pressed twice: one entry
    assert entries.use(*SESSION)
    assert not entries.use(*SESSION)


@pytest.mark.parametrize(
    "other", [("heidi", "ada", "lab"), ("grace", "bob", "lab"), ("grace", "ada", ""), ("ada",) * 3]
)
def test_it_is_for_one_visitor_and_one_server(
    entries: Entries, other: tuple[str, str, str]
) -> None:
    entries.admit(*SESSION)
    assert not entries.use(*other)
    assert entries.use(*SESSION)


def test_it_lasts_for_minutes(entries: Entries, clock: StillClock) -> None:
    entries.admit(*SESSION)
    clock.now += LASTS - 1
    assert entries.use(*SESSION)
    entries.admit(*SESSION)
    clock.now += LASTS
    assert not entries.use(*SESSION)
    assert LASTS <= 300


def test_a_user_has_few(entries: Entries) -> None:
    entries.admit("heidi", "ada", "lab")
    for number in range(100 * MOST):
        entries.admit("grace", "ada", f"lab{number}")
    assert not entries.use("grace", "ada", "lab0")
    assert sum(len(held) for held in entries._until.values()) == MOST + 1
    assert entries.use("heidi", "ada", "lab"), "others keep theirs"
