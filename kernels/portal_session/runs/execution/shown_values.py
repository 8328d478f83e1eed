"""Values of a point as its reports have them: few, and short. All are in the point's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from ..parameters import Scalar

MOST = 50  # names
_LONGEST_NAME = 100
_LONGEST = 200  # characters of a text
_LARGEST = 2**53  # larger integers are no numbers to a browser


def shown_values(values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the first MOST parameters of a point, with texts cut; a value that cannot be printed
    has U+FFFD in its place."""
    return {
        name: _shown(value)
        for name, value in islice(values.items(), MOST)
        if 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    }


def _shown(value: Scalar) -> Scalar:
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int) and abs(value) <= _LARGEST:
        return value
    text = value if isinstance(value, str) else f"{float(value):g}" if _fits(value) else "integer"
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in cut)


def _fits(number: int) -> bool:
    return abs(number) < 10**300
