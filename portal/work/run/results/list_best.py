"""Best point of a run as a list shows it: by the run's own metric, with its curve. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from portal.models import Frozen
from portal.models.session.search import Direction, Search

MOST_VALUES = 40  # of a curve
# By their usual names, as static/js/run has them: metrics that count, those that are none, and
# those of which more is better.
_FIRST = re.compile(r"loss|acc", re.IGNORECASE)
_COUNTERS = frozenset({"step", "epoch"})
_HIGHER = re.compile(
    r"acc|auc|f1|score|precision|recall|reward|return|iou|dice|bleu|rouge|psnr|ssim|r2|throughput"
    r"|per_s|speed",
    re.IGNORECASE,
)
_LOWER = re.compile(r"err|loss", re.IGNORECASE)
_PLAIN = re.compile(r'[^"\\]+')  # as `RunPointTable.bests` takes it


class ListBest(Frozen):
    """Best point of a ``run`` by a ``metric``, of which the ``lowest`` value is best or the
    highest: its number and its value; ``curve``: values of the metric over its steps, at most 40 of
    them, in their order."""

    run: str
    metric: str
    lowest: bool
    point: int
    value: float
    curve: tuple[float, ...] = ()


def own_metric(names: Sequence[str], search: Search | None) -> tuple[str, bool] | None:
    """Return the metric of a run whose points report these, and whether its lowest value is best;
    None if there is none. A search has its own."""
    if search is not None and _PLAIN.fullmatch(search.metric):
        return search.metric, search.direction is Direction.MINIMIZE
    metrics = [name for name in names if _PLAIN.fullmatch(name) and name not in _COUNTERS]
    metric = next(filter(_FIRST.search, metrics), next(iter(metrics), ""))
    if not metric:
        return None
    return metric, not _HIGHER.search(metric) or bool(_LOWER.search(metric))


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """Return at most MOST_VALUES of the values, the first and the last among them."""
    if len(values) <= MOST_VALUES:
        return tuple(values)
    last = len(values) - 1
    return tuple(values[round(n * last / (MOST_VALUES - 1))] for n in range(MOST_VALUES))
