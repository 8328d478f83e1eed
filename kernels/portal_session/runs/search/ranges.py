"""Ranges of a search's parameters, as portal-run reads them: ``lr=log(1e-5,1e-1)``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from .. import RunError
from ..parameters import Declared, check_name, check_value, read_value

MOST_CHOICES = 100
_WHOLE = 2**53  # larger numbers are not whole in JSON's readers
_RANGE = re.compile(r"(uniform|log|int|logint)\(([^()]*)\)")
_EXAMPLES = "'lr=log(1e-5,1e-1)', 'depth=int(2,8)' or 'opt=[adam,sgd]'"


def read_ranges(assignments: Sequence[str], known: Declared | None) -> list[dict[str, Any]]:
    """Return the ranges of ``NAME=RANGE``, as the portal takes them. ``known``: what the notebook
    declares; None of a script. Raises RunError."""
    ranges: list[dict[str, Any]] = []
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise RunError(f"'{assignment[:100]}' is not a valid search. Write {_EXAMPLES}.")
        check_name(name, known)
        if name in [other["name"] for other in ranges]:
            raise RunError(f"'{name}' is searched twice. Give it one range.")
        ranges.append({"name": name, **_range(name, text, known)})
    return ranges


def _range(name: str, text: str, known: Declared | None) -> dict[str, Any]:
    if text.startswith("[") and text.endswith("]"):
        return _choice(name, text, known)
    parts = _RANGE.fullmatch(text)
    if parts is None:
        raise RunError(f"'{text[:100]}' is not a valid range of '{name}'. Write {_EXAMPLES}.")
    kind, numbers = parts[1], [part.strip() for part in parts[2].split(",")]
    stepped = kind in ("uniform", "int")
    if len(numbers) != 2 and not (stepped and len(numbers) == 3):
        more = " and, optionally, a step" if stepped else ""
        raise RunError(f"The range of '{name}' needs a minimum and a maximum{more}.")
    whole = kind in ("int", "logint")
    low, high, *step = (_number(name, number, whole) for number in numbers)
    if low > high:
        raise RunError(
            f"The range of '{name}' has {low} before {high}. Give the smaller one first."
        )
    if kind in ("log", "logint") and low <= 0:
        raise RunError(f"The range of '{name}' is logarithmic, so it must begin above 0.")
    if step and step[0] <= 0:
        raise RunError(f"The step of '{name}' must be above 0.")
    if not whole and known and known[name].type == "int":
        raise RunError(f"'{name}' is a whole number in the notebook. Search it with int(LOW,HIGH).")
    check_value(name, low, known)
    search_range: dict[str, Any] = {"kind": "int" if whole else "float", "low": low, "high": high}
    if kind in ("log", "logint"):
        search_range["log"] = True
    return {**search_range, "step": step[0]} if step else search_range


def _number(name: str, text: str, whole: bool) -> float:
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or abs(number) > (_WHOLE if whole else 1e300):
        kind = "whole number" if whole else "number"
        raise RunError(f"'{text[:50]}' in the range of '{name}' is not a {kind}, or is too large.")
    return number


def _choice(name: str, text: str, known: Declared | None) -> dict[str, Any]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list):
        choices = [check_value(name, value, known) for value in listed]
    else:  # [adam,sgd]
        words = [word.strip() for word in text[1:-1].split(",")]
        choices = [read_value(name, word, known) for word in words if word]
    if not 1 <= len(choices) <= MOST_CHOICES:
        raise RunError(f"'{name}' needs 1 to {MOST_CHOICES} values to choose from.")
    return {"kind": "choice", "choices": choices}
