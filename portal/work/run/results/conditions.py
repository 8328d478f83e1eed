"""Conditions on the parameters and metrics of points, such as ``lr<0.01 opt=adam``. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from portal.errors import InvalidRequest
from portal.work.run.tables.points import PointKeys

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_WORD = r'"[^"]*"|[^\s<>=!",]+'
_CONDITION = re.compile(rf"\s*({_WORD})\s*(<=|>=|!=|<|>|=)\s*({_WORD})\s*,?")


class Condition(NamedTuple):
    """Comparison of a parameter or metric with a value, as text."""

    name: str
    operator: str
    value: str

    def holds_for(self, key: PointKeys) -> bool:
        """Return whether a point has the value: numbers are compared as numbers, all else as text,
        and only for equality. A point without the name has no value. A parameter comes before a
        metric of the same name."""
        value = key.parameters.get(self.name, key.metrics.get(self.name))
        if value is None:
            return False
        compare, number = _OPERATORS[self.operator], _number(self.value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and number is not None:
            return compare(value, number)
        return self.operator in ("=", "!=") and compare(str(value).lower(), self.value.lower())


def conditions(text: str) -> tuple[Condition, ...]:
    """Return the conditions of a text, separated by spaces or commas; all have to hold. A name or
    value with spaces is in quotation marks. Raises InvalidRequest."""
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _CONDITION.match(text, at)
        if match is None:
            raise InvalidRequest(
                f"'{text[at:].strip()}' is not a condition. Enter a name, one of < <= = != >= >, "
                "and a value, such as lr<0.01.",
                "where",
            )
        name, sign, value = match.groups()
        found.append(Condition(name.strip('"'), sign, value.strip('"')))
        at = match.end()
    return tuple(found)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
