"""Order of a run's points: those with a row, and all others, which wait. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from portal.models.session.run import PointState
from portal.work.run.tables.points import PointKeys

from .conditions import Condition

SORTS = ("number", "state", "cell", "started_at", "ended_at", "seconds", "metric", "parameter")
_RANKS = {state: rank for rank, state in enumerate(PointState)}


def point_numbers(
    count: int,
    keys: Sequence[PointKeys],
    state: PointState | None,
    sort: str,
    name: str = "",
    where: Sequence[Condition] = (),
) -> list[int]:
    """Return the numbers of a run's points of this state (None: all) for which all conditions of
    ``where`` hold, in the order of ``sort``: one of SORTS, with "-" before it for descending order.
    Points without a value stand last; ties go by number.

    ``count``: of all points; ``keys``: of those with a row; ``name``: of the metric or parameter to
    sort by.
    """
    value = _value(sort.removeprefix("-"), name)
    known = {key.number for key in keys}
    waiting = [PointKeys(number, PointState.WAITING, None, {}, {}, None, None)
               for number in range(count) if number not in known]  # fmt: skip
    points = [
        key
        for key in (*keys, *waiting)
        if state in (None, key.state) and all(condition.holds_for(key) for condition in where)
    ]
    points.sort(key=lambda key: key.number)
    valued = [(value(key), key) for key in points]
    with_value = [pair for pair in valued if pair[0] is not None]
    with_value.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    without = [key.number for sort_value, key in valued if sort_value is None]
    return [key.number for _, key in with_value] + without


def _value(sort: str, name: str) -> Callable[[PointKeys], Any]:
    if sort == "metric":
        return lambda key: key.metrics.get(name)
    if sort == "parameter":
        return lambda key: _ordered(key.parameters.get(name))
    if sort == "state":
        return lambda key: _RANKS[key.state]
    if sort == "seconds":
        return _seconds
    return lambda key: getattr(key, sort)


def _ordered(value: Any) -> tuple[int, float, str] | None:
    """Return what a parameter's value is sorted by: numbers, true and false first, then texts."""
    if value is None:
        return None
    return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")


def _seconds(key: PointKeys) -> float | None:
    if key.started_at is None or key.ended_at is None:
        return None
    return key.ended_at - key.started_at
