"""Histories of the metrics of MLflow's runs in one point: every value, in 24 bytes."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from .mlflow_values import MlflowError, shown_number

MOST = 1_000_000  # values of a point
_OF = ("model_id", "dataset_name", "dataset_digest")  # what a value may belong to


class _History:
    """Values of one metric, those of what each belongs to together."""

    def __init__(self) -> None:
        self.values, self.moments, self.steps = array("d"), array("q"), array("q")
        self.owners = array("L")
        self.whole = True


class Histories:
    """Histories by run and metric."""

    def __init__(self) -> None:
        self._histories: dict[tuple[str, str], _History] = {}
        self._owners: dict[tuple[str, ...], int] = {}  # by number, in order
        self._left = MOST

    def add_value(self, run: str, metric: Mapping[str, Any]) -> None:
        """Add a value, unless there are MOST."""
        history = self._histories.setdefault((run, metric["key"]), _History())
        if self._left <= 0:
            history.whole = False
            return
        self._left -= 1
        owner = tuple(metric.get(name, "") for name in _OF)
        history.values.append(float(metric["value"]))
        history.moments.append(metric["timestamp"])
        history.steps.append(metric["step"])
        history.owners.append(self._owners.setdefault(owner, len(self._owners)))

    def get(self, run: str, key: str) -> list[dict[str, Any]]:
        """Return all values of a metric as MLflow's API has them, in the order in which they came.
        Raises MlflowError if some were not kept."""
        history = self._histories.get((run, key))
        if history is None:
            return []
        if not history.whole:
            raise MlflowError(
                f"The portal keeps {MOST:,} values of a point, and this metric has more. All are "
                "in the point's metrics.jsonl."
            )
        owners = [{name: text for name, text in zip(_OF, owner) if text} for owner in self._owners]
        return [
            {"key": key, "value": shown_number(value), "timestamp": moment, "step": step,
             "run_id": run, **owners[owner]}
            for value, moment, step, owner in zip(
                history.values, history.moments, history.steps, history.owners
            )
        ]  # fmt: skip
