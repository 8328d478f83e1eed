"""Durations and clock times, as all sentences and pages have them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from portal.models.words import clock, dated, duration

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s"), (45.9, "45 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"),
        (3900, "1 h 5 min"), (86_400, "1 d"), (86_400 + 300, "1 d"), (90_000 + 59, "1 d 1 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (NOW + 7680, "14:08"),
        (NOW - 12 * 3600 - 60, "21 Nov, 23:59"),
        (NOW - 365 * 86_400, "22 Nov 2025, 12:00"),
    ],
)
def test_clock(at: float, words: str) -> None:
    assert clock(at, NOW) == words
    assert clock(at, NOW, zone=True) == f"{words} UTC"


def test_a_time_with_its_day_is_written_as_by_the_clock() -> None:
    assert dated(datetime.fromtimestamp(NOW, UTC)) == clock(NOW, 0.0) == "22 Nov 2026, 12:00"
