"""Point of a run that is best by a metric. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from portal.models import Frozen
from portal.models.session.run import Parameter
from portal.work.run.tables.points import PointKeys

# Metrics of which more is better, by their usual names; of all others less is. As in
# static/js/run/best.js.
_HIGHER = re.compile(
    "acc|auc|f1|score|precision|recall|reward|return|iou|dice|bleu|rouge|psnr|ssim|r2|throughput"
    "|per_s|speed",
    re.IGNORECASE,
)
_COUNTS = ("step", "epoch")


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


def usual_best(points: Sequence[PointKeys]) -> tuple[str, BestPoint] | None:
    """Return the metric that counts by its name, and the best point by it; None without
    metrics."""
    names = sorted({name for point in points for name in point.metrics})
    likely = [name for name in names if re.search("loss|acc", name, re.IGNORECASE)]
    others = [name for name in names if name not in _COUNTS]
    for metric in (*likely, *others, *names):
        higher = _HIGHER.search(metric) and not re.search("err|loss", metric, re.IGNORECASE)
        if best := best_point(points, metric, max if higher else min):
            return metric, best
    return None
