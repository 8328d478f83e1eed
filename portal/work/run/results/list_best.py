"""Best point of a run as lists show it: by the run's own metric, with its curve."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from portal.models import Frozen
from portal.models.session.search import Direction, Search
from portal.store import Store
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.searches import RunSearchTable

MOST_VALUES = 40  # of a curve
# By their usual names, as static/js/run/goals.js has them: metrics that count, those that are
# none, and those of which more is better.
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


async def best_points(store: Store, user: str, ids: Collection[str]) -> dict[str, ListBest]:
    """Return the best point of each of a user's runs, by run, without its curve; runs without a
    metric are left out. The names are in the order of the run's page, so that both choose the same.
    Raises StoreUnavailable."""
    names = await store.table(RunPointTable).metric_names(user, ids)
    searches = await store.table(RunSearchTable).of_runs(user, ids)
    chosen = {id_: own_metric(sorted(names.get(id_, ())), searches.get(id_)) for id_ in ids}
    metrics = {id_: metric for id_, metric in chosen.items() if metric is not None}
    bests = await store.table(RunPointTable).bests(user, metrics)
    return {
        id_: ListBest(
            run=id_, metric=metrics[id_][0], lowest=metrics[id_][1], point=number, value=value
        )
        for id_, (number, value) in bests.items()
    }


async def listed_bests(store: Store, user: str, ids: Collection[str]) -> dict[str, ListBest]:
    """Return the best point of each of a user's runs, by run, with its curve; runs without a metric
    are left out. Raises StoreUnavailable."""
    bests = await best_points(store, user, ids)
    points = {id_: (best.point, best.metric) for id_, best in bests.items()}
    curves = await store.table(RunCurveTable).of_points(user, points)
    return {
        id_: best.model_copy(update={"curve": thinned([y for _, y in curves.get(id_, ())])})
        for id_, best in bests.items()
    }


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """Return at most MOST_VALUES of the values, the first and the last among them."""
    if len(values) <= MOST_VALUES:
        return tuple(values)
    last = len(values) - 1
    return tuple(values[round(n * last / (MOST_VALUES - 1))] for n in range(MOST_VALUES))
