"""The metric by which a run is shown in a list, and its curve there."""

from __future__ import annotations

import pytest

from portal.models.session.search import Search
from portal.work.run.results.list_best import MOST_VALUES, own_metric, thinned

SEARCH = {
    "parameters": [{"kind": "float", "name": "lr", "low": 0.1, "high": 1.0}],
    "metric": "reward",
    "direction": "maximize",
    "seed": 1,
}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], None),
        (["step", "epoch"], None),
        (["step", "time"], ("time", True)),
        (["time", "val_accuracy"], ("val_accuracy", False)),
        (["f1", "recall"], ("f1", False)),
        (["auc", "train_loss"], ("train_loss", True)),
        (["accuracy_error"], ("accuracy_error", True)),
        (['my "loss"', "back\\slash", "rmse"], ("rmse", True)),
    ],
)
def test_a_run_s_own_metric(names: list[str], chosen: tuple[str, bool] | None) -> None:
    assert own_metric(names, None) == chosen


def test_a_search_has_its_own() -> None:
    assert own_metric(["loss"], Search.model_validate(SEARCH)) == ("reward", False)
    odd = Search.model_validate({**SEARCH, "metric": 'the "best"'})
    assert own_metric(["loss"], odd) == ("loss", True)


def test_a_curve_keeps_its_ends() -> None:
    assert thinned([1.0, 2.0]) == (1.0, 2.0)
    values = thinned([float(n) for n in range(200)])
    assert len(values) == MOST_VALUES and (values[0], values[-1]) == (0.0, 199.0)
    assert list(values) == sorted(set(values))
