"""Histories of metrics: bounded, with the newest value, whatever is logged."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from portal_session.runs.execution import histories
from portal_session.runs.execution.histories import MOST, MOST_PAIRS, Histories, History
from portal_session.runs.execution.metrics import Metrics


def test_the_metric_of_a_search_has_a_history_among_many(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path, "accuracy")
    many = [{f"m{number}": 1.0, "step": 1} for number in range(60)]
    lines = [*many, {"accuracy": 0.5, "step": 2}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert metrics.newest()["accuracy"] == 0.5
    curves = metrics.curves(newest=True)
    assert curves["accuracy"] == [(2.0, 0.5)] and len(curves) == MOST


@pytest.mark.parametrize("length", [0, 1, 2, 199, 200, 201, 202, 398, 399, 1000, 12_345])
def test_a_long_history_is_thinned_evenly(length: int) -> None:
    history = History()
    for step in range(length):
        history.add_value(step, 1 / (1 + step))
    steps = [step for step, _ in history.pairs()]
    assert len(steps) <= MOST_PAIRS and len(steps) >= min(length, MOST_PAIRS // 2)
    assert not length or (steps[0], steps[-1]) == (0, length - 1)
    widths = {later - before for before, later in pairwise(steps[:-1])}
    assert len(widths) <= 1, "every k-th"


def test_steps_are_logged_or_counted() -> None:
    made = Histories()
    made.add_values({"loss": 3.0, "epoch": 7.0})
    made.add_values({"loss": 2.0, "epoch": 8.0, "step": 800.0})
    made.add_values({"loss": 1.0})
    assert made.curves(newest=True) == {"loss": [(7.0, 3.0), (800.0, 2.0), (2.0, 1.0)]}


def test_at_most_twenty_metrics_have_one() -> None:
    made = Histories()
    made.add_values({f"m{number}": 1.0 for number in range(30)})
    made.add_values({"late": 1.0, "m0": 2.0})
    curves = made.curves(newest=True)
    assert len(curves) == MOST == 20 and len(curves["m0"]) == 2 and "late" not in curves


def test_a_snapshot_stays_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Histories()
    assert made.curves(newest=False) == {}
    made.add_values({"loss": 1.0})
    first = made.curves(newest=False)
    made.add_values({"loss": 0.5})
    assert made.curves(newest=False) is first
    assert len(made.curves(newest=True)["loss"]) == 2
    monkeypatch.setattr(histories, "_EVERY", 0.0)
    made.add_values({"loss": 0.25})
    assert len(made.curves(newest=False)["loss"]) == 3


def test_the_curves_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"loss": 0.5, "step": 10}, {"loss": "nan", "step": 11}, {"loss": 1e-12, "step": 12}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, ["x"], {"a": None}]))
    metrics = Metrics(path)
    assert metrics.curves(newest=True) == {}
    metrics.newest()
    assert metrics.curves(newest=True) == {"loss": [(10.0, 0.5), (12.0, 1e-12)]}


def test_the_largest_report_is_small() -> None:
    made = Histories()
    for step in range(1000):
        made.add_values({f"metric-{number:02}": step / 7e-5 for number in range(30)})
    assert len(json.dumps(made.curves(newest=True))) < 150_000
