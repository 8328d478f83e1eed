"""Data sets and models that MLflow's runs of a point have used and made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

from .mlflow_values import (
    MlflowError,
    check_arguments,
    check_number,
    items,
    named,
    pairs,
    text,
    whole,
)

# Characters, as MLflow has them; a request has 4 MB.
_LONGEST = {"name": 500, "digest": 36, "source_type": 500, "source": 65_535,
            "schema": 1_048_575, "profile": 16_777_215}  # fmt: skip
_HISTORY = "mlflow.log-model.history"  # the tag where MLflow's server keeps a run's models
_OF_MODEL = ("run_id", "utc_time_created", "artifact_path", "model_uuid")
_MOST_HISTORY = 4_000_000  # characters of that tag


class MlflowInputs:
    """Inputs and outputs, by run. ``model``: returns a model by its id, or raises MlflowError."""

    def __init__(self, model: Callable[[str], Any]) -> None:
        self._model = model
        self._datasets: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self._used: dict[str, dict[str, None]] = {}
        self._made: dict[str, dict[str, int]] = {}

    def add_inputs(self, run: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Add data sets and models that a run has used; return what is worth a line of its file.
        Raises MlflowError."""
        new = [_dataset(item) for item in items(body, "datasets")]
        models = [self._known(item, ()) for item in items(body, "models")]
        datasets = self._datasets.setdefault(run, {})
        check_number(len(datasets) + len(new) - 1, "data sets")
        facts = []
        for tags, dataset in new:
            key = dataset["name"], dataset["digest"]
            known = datasets.setdefault(key, {"tags": {}, "dataset": dataset})
            known["tags"].update(tags)
            facts.append({"dataset": key[0], "digest": key[1], "dataset_tags": tags})
        self._used.setdefault(run, {}).update(dict.fromkeys(models))
        return facts

    def add_outputs(self, run: str, body: Mapping[str, Any]) -> None:
        """Add models that a run has made. Raises MlflowError."""
        made = {
            self._known(item, ("step",)): whole(item, "step", 0) for item in items(body, "models")
        }
        self._made.setdefault(run, {}).update(made)

    def add_logged(self, tags: dict[str, str], described: str) -> None:
        """Add a model, described as JSON, to those in a run's ``tags``. Raises MlflowError."""
        try:
            model = json.loads(described)
            flavors = model.get("flavors") or {}
            history = json.loads(tags.get(_HISTORY, "[]"))
        except (ValueError, AttributeError, RecursionError):
            model, flavors, history = None, None, None
        if not isinstance(flavors, dict) or not isinstance(history, list):
            raise MlflowError("'model_json' must be a JSON object.")
        shown: dict[str, Any] = {name: model[name] for name in _OF_MODEL if name in model}
        shown["flavors"] = {
            flavor: {name: value for name, value in config.items() if name != "config"}
            if isinstance(config, dict)
            else config
            for flavor, config in flavors.items()
        }
        tag = json.dumps([*history, shown])
        if len(tag) > _MOST_HISTORY:
            raise MlflowError("The descriptions of the run's models are too long.")
        tags[_HISTORY] = tag

    def shown(self, run: str) -> dict[str, Any]:
        """Return the inputs and outputs of a run as MLflow's API has them."""
        datasets = [
            {"tags": pairs(known["tags"]), "dataset": known["dataset"]}
            for known in self._datasets.get(run, {}).values()
        ]
        used = [{"model_id": id_} for id_ in self._used.get(run, ())]
        made = [{"model_id": id_, "step": step} for id_, step in self._made.get(run, {}).items()]
        return {
            "inputs": {"dataset_inputs": datasets, "model_inputs": used},
            "outputs": {"model_outputs": made},
        }

    def _known(self, item: Mapping[str, Any], more: tuple[str, ...]) -> str:
        check_arguments("models", item, ("model_id", *more))
        id_ = text(item, "model_id")
        self._model(id_)
        return id_


def _dataset(item: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the tags and the facts of a data set. Raises MlflowError."""
    check_arguments("datasets", item, ("tags", "dataset"))
    about = item.get("dataset")
    if not isinstance(about, dict):
        raise MlflowError("'dataset' must be an object.")
    check_arguments("dataset", about, _LONGEST)
    facts = {
        name: text(about, name, None if name in ("name", "digest") else "", longest)
        for name, longest in _LONGEST.items()
        if name in about or name in ("name", "digest")
    }
    return dict(named(tag, text) for tag in items(item, "tags")), facts
