"""Numbers of a run's points as short text, such as "3,17-20": as sbatch's ``--array`` has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

_LONGEST = 60_000  # characters: every third of 10,000 points is missing
_PART = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def compact(numbers: Iterable[int]) -> str:
    """Return the text of numbers, in any order: ranges and single numbers, ascending."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def expanded(text: str) -> tuple[int, ...]:
    """Return the numbers of a text, ascending; () for "". Raises ValueError for another text."""
    numbers: list[int] = []
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError("must be numbers and ranges of numbers")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (numbers and first <= numbers[-1]):
            raise ValueError("must be in ascending order")
        numbers += range(first, last + 1)
    return tuple(numbers)


def _checked(text: str) -> str:
    expanded(text)
    return text


PointNumbers = Annotated[
    str,
    StringConstraints(max_length=_LONGEST),
    AfterValidator(_checked),
    Field(
        description="Numbers of points in ascending order, such as '3,17-20'", examples=["3,17-20"]
    ),
]
