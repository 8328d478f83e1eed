"""Values of a run's points, as plots of all points take them: rows without names. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from portal.models import Frozen
from portal.models.session.run import Parameter, PointState
from portal.work.run.tables.points import PointKeys

_MOST_NAMES = 50


class PointValues(Frozen):
    """Values of a point, in the order of the names; null: it has none."""

    number: int
    state: PointState
    parameters: tuple[Parameter, ...]
    metrics: tuple[float | None, ...]


class RunValues(Frozen):
    """Values of points: the names of their ``parameters`` and ``metrics``, at most 50 of each in
    alphabetical order, and the points. ``total`` counts all that have reported."""

    parameters: tuple[str, ...]
    metrics: tuple[str, ...]
    items: tuple[PointValues, ...]
    total: int


def run_values(keys: Sequence[PointKeys], order: Sequence[int], limit: int) -> RunValues:
    """Return the values of the first ``limit`` points that have any. ``keys``: of the points with a
    row; ``order``: numbers of points."""
    known = {key.number: key for key in keys if key.parameters or key.metrics}
    points = [known[number] for number in order if number in known]
    parameters = sorted({name for point in points for name in point.parameters})[:_MOST_NAMES]
    metrics = sorted({name for point in points for name in point.metrics})[:_MOST_NAMES]
    items = (
        PointValues(
            number=point.number,
            state=point.state,
            parameters=tuple(point.parameters.get(name) for name in parameters),
            metrics=tuple(point.metrics.get(name) for name in metrics),
        )
        for point in points[:limit]
    )
    return RunValues(
        parameters=tuple(parameters),
        metrics=tuple(metrics),
        items=tuple(items),
        total=len(points),
    )
