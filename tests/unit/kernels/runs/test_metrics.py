"""Metrics of a point: what is logged, and what is read while another program writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs.execution.metrics import MOST, Metrics
from portal_session.runs.library import portal_metrics


class Tensor:
    """What float() takes, as arrays of one element are."""

    def __float__(self) -> float:
        return 0.25


def test_what_is_logged_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("PORTAL_METRICS", str(path))
    metrics = Metrics(path)
    assert metrics.newest() == {}
    portal_metrics.log(loss=1, step=1)
    portal_metrics.log(loss=Tensor(), accuracy=True)
    assert metrics.newest() == {"loss": 0.25, "step": 1.0, "accuracy": 1.0}
    portal_metrics.log(loss=float("nan"), step=float("-inf"))
    assert metrics.newest() == {"accuracy": 1.0}, "what was before is not what is"
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == {
        "loss": "nan",
        "step": "-inf",
    }
    for wrong in ("text", None, [1, 2]):
        with pytest.raises((TypeError, ValueError)):
            portal_metrics.log(loss=wrong)


def test_outside_of_a_run_nothing_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTAL_METRICS", raising=False)
    portal_metrics.log(loss=1)


def test_a_line_that_is_still_written_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    path.write_bytes(b'{"loss": 1}\n{"lo')
    assert metrics.newest() == {"loss": 1.0}
    with path.open("ab") as file:
        file.write(b'ss": 2}\n')
    assert metrics.newest() == {"loss": 2.0}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "x",
        "\0",
        "[" * 100_000,
        '{"loss": NaN, "a": Infinity}',
        '{"loss": null}',
        '{"": 1}',
        '{"a\\nb": 1}',
        json.dumps({"x" * 101: 1}),
        json.dumps({"x": 10**400}),
        '{"x": true}',
    ],
)
def test_what_is_no_metric(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{line}\n{{"good": 1}}\n')
    assert Metrics(path).newest() == {"good": 1.0}


def test_a_bounded_number_of_names(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    values: dict[str, Any] = {f"m{number}": number for number in range(80)}
    path.write_text(json.dumps(values) + "\n" + json.dumps({"m0": 7}) + "\n" + "x" * 3_000_000)
    newest = Metrics(path).newest()
    assert len(newest) == MOST and newest["m0"] == 7.0
