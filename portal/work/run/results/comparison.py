"""Comparison of runs: facts and parameters that differ, and the best point of each metric. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portal.models import Frozen
from portal.models.session.run import Parameter, Run
from portal.models.session.search import Direction, Search
from portal.work.run.tables.points import PointKeys

from .best import BestPoint, best_point
from .item import RunItem

_MOST_VALUES = 20  # of a parameter
_MOST_LOOKED_AT = 500  # parameters: each point may have others
_MOST_NAMES = 100
_FACTS = ("source", "environment", "points", "at_once")


class ComparedFact(Frozen):
    """Fact that differs: its name, and a text for each run; "" if it was not set."""

    name: str
    values: tuple[str, ...]


class ComparedParameter(Frozen):
    """Parameter whose values differ: at most 20 of each run, in their order."""

    name: str
    values: tuple[tuple[Parameter, ...], ...]


class ComparedMetric(Frozen):
    """Best points by a metric, lowest and highest, for each run; null: it has not reported it."""

    name: str
    lowest: tuple[BestPoint | None, ...]
    highest: tuple[BestPoint | None, ...]


class ComparedSearch(Frozen):
    """Metric of a run's search, and its direction."""

    metric: str
    direction: Direction


class RunComparison(Frozen):
    """Comparison of ``runs``; values are in their order. ``searches``: null of a run without
    one."""

    runs: tuple[RunItem, ...]
    searches: tuple[ComparedSearch | None, ...]
    facts: tuple[ComparedFact, ...]
    parameters: tuple[ComparedParameter, ...]
    metrics: tuple[ComparedMetric, ...]


def compared(
    runs: Sequence[RunItem],
    keys: Sequence[Sequence[PointKeys]],
    searches: Sequence[Search | None],
) -> RunComparison:
    """Return the comparison of runs. ``keys``: for each, those of its points with a row;
    ``searches``: None of a run without one."""
    metrics = sorted({name for points in keys for point in points for name in point.metrics})
    return RunComparison(
        runs=tuple(runs),
        searches=tuple(
            None
            if search is None
            else ComparedSearch(metric=search.metric, direction=search.direction)
            for search in searches
        ),
        facts=tuple(_facts(runs)),
        parameters=tuple(_parameters(keys)),
        metrics=tuple(
            ComparedMetric(
                name=name,
                lowest=tuple(best_point(points, name, min) for points in keys),
                highest=tuple(best_point(points, name, max) for points in keys),
            )
            for name in metrics[:_MOST_NAMES]
        ),
    )


def _facts(runs: Sequence[Run]) -> list[ComparedFact]:
    rows = {name: tuple(_text(getattr(run, name)) for run in runs) for name in _FACTS}
    for name in sorted({name for run in runs for name in run.resources}):
        rows[name] = tuple(_text(run.resources.get(name)) for run in runs)
    return [ComparedFact(name=name, values=row) for name, row in rows.items() if len(set(row)) > 1]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _parameters(keys: Sequence[Sequence[PointKeys]]) -> list[ComparedParameter]:
    names = sorted({name for points in keys for point in points for name in point.parameters})
    rows = []
    for name in names[:_MOST_LOOKED_AT]:
        values = [
            sorted({_typed(point.parameters[name]) for point in points if name in point.parameters})
            for points in keys
        ]
        if any(row != values[0] for row in values):
            first_values = tuple(tuple(value[-1] for value in row[:_MOST_VALUES]) for row in values)
            rows.append(ComparedParameter(name=name, values=first_values))
    return rows[:_MOST_NAMES]


def _typed(value: Any) -> tuple[int, float, str, Any]:
    """Return a value with what it is sorted by: numbers, true and false, texts, nothing. Since 1
    equals true in Python, they are told apart by the first item."""
    if value is None:
        return (3, 0.0, "", None)
    if isinstance(value, str):
        return (2, 0.0, value, value)
    return (1 if isinstance(value, bool) else 0, float(value), "", value)
