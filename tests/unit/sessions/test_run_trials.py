"""Choice of a search's parameters by Optuna: what it depends on, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from portal.models.session.run import PointState
from portal.models.session.search import Search
from portal.work.run.results.trials import Trial, best_of, choose, trials_of
from portal.work.run.tables.points import PointKeys

RANGES: tuple[dict[str, Any], ...] = (
    {"name": "x", "kind": "float", "low": -10, "high": 10},
    {"name": "lr", "kind": "float", "low": 1e-5, "high": 0.1, "log": True},
    {"name": "dropout", "kind": "float", "low": 0, "high": 0.55, "step": 0.1},
    {"name": "depth", "kind": "int", "low": 2, "high": 9, "step": 2},
    {"name": "width", "kind": "int", "low": 16, "high": 1024, "log": True},
    {"name": "opt", "kind": "choice", "choices": ["adam", 1, True, None, 0.5]},
)


def a_search(*ranges: dict[str, Any], **more: Any) -> Search:
    values = {"metric": "loss", "direction": "minimize", "seed": 7, **more}
    return Search.model_validate({"parameters": ranges or RANGES, **values})


def test_choices_are_in_their_ranges() -> None:
    search, trials = a_search(), list[Trial]()
    for number in range(25):
        chosen = choose(search, trials, number)
        trials.append(Trial(number, chosen, chosen["x"] ** 2))
        values = search.values(chosen)
        assert -10 <= values["x"] <= 10 and 1e-5 <= values["lr"] <= 0.1
        assert 0 <= values["dropout"] <= 0.5 and values["depth"] in (2, 4, 6, 8)
        assert isinstance(values["width"], int) and 16 <= values["width"] <= 1024
    opts = [search.values(trial.chosen)["opt"] for trial in trials]
    assert {repr(value) for value in opts} >= {"1", "True"}, "these are two values"


def test_it_finds_what_is_good() -> None:
    search = a_search(RANGES[0], {"name": "side", "kind": "choice", "choices": ["a", "b"]})
    trials: list[Trial] = []
    for number in range(50):
        chosen = choose(search, trials, number)
        trials.append(Trial(number, chosen, (chosen["x"] - 3) ** 2 + 5 * chosen["side"]))
    best = best_of(search, trials)
    assert best is not None and best.value < 0.1 and best.parameters["side"] == "a"
    later = [abs(trial.chosen["x"] - 3) for trial in trials[30:]]
    assert sorted(later)[len(later) // 2] < 3.5, "half of the later ones are near; of random, 5"
    upwards = a_search(RANGES[0], direction="maximize")
    best = best_of(upwards, [Trial(0, {"x": 1.0}, 1.0), Trial(1, {"x": 2.0}, 5.0)])
    assert best is not None and best.point == 1


def test_the_same_is_chosen_again_and_points_at_once_differ() -> None:
    """A service that was killed builds the study anew: the seed alone would repeat its numbers."""
    search, running = a_search(RANGES[0]), list[Trial]()
    for number in range(30):
        running.append(Trial(number, choose(search, running, number)))
    assert len({trial.chosen["x"] for trial in running}) == 30
    assert choose(search, running[:12], 12) == running[12].chosen
    other = a_search(RANGES[0], seed=8)
    assert choose(other, running[:12], 12) != running[12].chosen


def test_results_of_trials() -> None:
    def key(number: int, state: str, **metrics: float) -> PointKeys:
        return PointKeys(number, PointState(state), None, metrics, {}, None, None)

    keys = [key(0, "succeeded", loss=1.5, other=9), key(1, "succeeded"), key(2, "running", loss=1),
            key(3, "failed", loss=0.1), key(4, "lost"), key(9, "succeeded", loss=0)]  # fmt: skip
    search = a_search(RANGES[0])
    trials = trials_of(search, {number: {"x": 1.0} for number in range(6)}, keys)
    assert [trial.value for trial in trials] == [1.5, None, None, None, None, None]
    assert [trial.failed for trial in trials] == [False, True, False, True, True, False]
    best = best_of(search, trials)
    assert best is not None and (best.point, best.value) == (0, 1.5)
    assert best_of(search, trials[1:]) is None
    assert "x" in choose(search, trials, 6)


def test_pruned_trials_are_no_results_but_are_learned_from() -> None:
    """Here all that were pruned are on one side, with the lower values."""
    search = a_search({"name": "x", "kind": "float", "low": 0.0, "high": 1.0})
    chosen = {number: {"x": number / 40} for number in range(40)}
    keys = [
        PointKeys(n, PointState.SUCCEEDED, None, {"loss": n / 40}, {}, None, None, pruned=n < 20)
        for n in chosen
    ]
    keys[0] = keys[0]._replace(metrics={})  # before it has logged anything
    trials = trials_of(search, chosen, keys)
    assert not any(trial.failed for trial in trials)
    best = best_of(search, trials)
    assert best is not None and best.point == 20
    assert all(choose(search, trials, number)["x"] > 0.45 for number in range(40, 46))


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [{"name": "x", "kind": "float", "low": 2, "high": 1}],
        [{"name": "x", "kind": "float", "low": 0, "high": 1, "log": True}],
        [{"name": "x", "kind": "float", "low": 1, "high": 2, "log": True, "step": 0.5}],
        [{"name": "x", "kind": "float", "low": 0, "high": float("inf")}],
        [{"name": "x", "kind": "float", "low": 0, "high": 1, "step": 0}],
        [{"name": "x", "kind": "int", "low": 0.5, "high": 2}],
        [{"name": "x", "kind": "int", "low": 0, "high": 2**60}],
        [{"name": "x", "kind": "choice", "choices": []}],
        [{"name": "x", "kind": "choice", "choices": [[1]]}],
        [{"name": "x", "kind": "choice", "choices": [float("nan")]}],
        [{"name": "x\n", "kind": "choice", "choices": [1]}],
        [{"name": "x", "kind": "other"}],
        [RANGES[0], RANGES[0]],
        [{**RANGES[0], "name": f"x{number}"} for number in range(51)],
    ],
)
def test_searches_that_are_none(ranges: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        Search.model_validate({"parameters": ranges, "metric": "loss", "direction": "minimize"})
