"""Point of a run that is best by a metric. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from portal.models import Frozen
from portal.models.session.run import Parameter
from portal.work.run.tables.points import PointKeys


class BestPoint(Frozen):
    """Point that is best by a metric, with its value and its parameters."""

    number: int
    value: float
    parameters: dict[str, Parameter]


def best_point(
    points: Sequence[PointKeys], metric: str, choose: Callable[..., PointKeys]
) -> BestPoint | None:
    """Return the point with the lowest value (``choose`` is ``min``) or the highest (``max``), the
    first one of several; None if no point has reported the metric."""
    with_value = [point for point in points if metric in point.metrics]
    if not with_value:
        return None
    point = choose(with_value, key=lambda key: key.metrics[metric])
    return BestPoint(
        number=point.number, value=point.metrics[metric], parameters=dict(point.parameters)
    )
