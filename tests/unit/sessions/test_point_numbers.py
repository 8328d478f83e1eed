"""Numbers of points as text."""

from __future__ import annotations

import pytest

from portal.models.session.point_numbers import compact, expanded


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((7,), "7"),
        ((3, 20, 17, 18, 19, 18), "3,17-20"),
        (range(10_000), "0-9999"),
        ((0, 1, 3, 4), "0-1,3-4"),
    ],
)
def test_numbers_are_ranges(numbers: list[int], text: str) -> None:
    assert compact(numbers) == text
    assert expanded(text) == tuple(sorted(set(numbers)))


def test_the_longest_fits_into_an_argument() -> None:
    worst = max((compact(n for n in range(10_000) if n % step) for step in range(2, 9)), key=len)
    assert 30_000 < len(worst) < 60_000 < 128 * 1024, "Linux's MAX_ARG_STRLEN"


@pytest.mark.parametrize("text", ["a", "1,", ",1", "2,1", "1,1", "5-3", "1-3,3", "1-2-3", "10000",
                                  "1 ", "1-9:2", "-1", "\u0661"])  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        expanded(text)
