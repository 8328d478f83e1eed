"""MLflow's experiments of one point: names, with tags, for its runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .mlflow_order import clauses_of, only_active, ordered, page
from .mlflow_values import MlflowError, check_number, items, missing, named, now, pairs, text

_ORDERS = {"experiment_id": "experiment_id", "name": "name", "creation_time": "creation_time",
           "last_update_time": "last_update_time"}  # fmt: skip
_PAGE = 1000


class MlflowExperiments:
    """Experiments, by id. ``artifacts``: the folder of their runs' artifacts."""

    def __init__(self, artifacts: Path) -> None:
        self._artifacts = artifacts
        self._experiments: dict[str, dict[str, Any]] = {}
        self._add("Default", {})

    def name(self, id_: str) -> str:
        """Return the name of an experiment. Raises MlflowError if there is none of this id."""
        return str(self._get(id_)["name"])

    def create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an experiment. Raises MlflowError."""
        name, tags = text(body, "name"), dict(named(item, text) for item in items(body, "tags"))
        if body.get("artifact_location"):
            raise MlflowError(
                "Artifacts of a run of the portal are in the folder of their point. Remove "
                "'artifact_location'."
            )
        if any(experiment["name"] == name for experiment in self._experiments.values()):
            raise MlflowError(f"The experiment '{name}' already exists.", "RESOURCE_ALREADY_EXISTS")
        check_number(len(self._experiments), "experiments")
        check_number(len(tags) - 1, "tags")
        return {"experiment_id": self._add(name, tags)}

    def get(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return an experiment by its id. Raises MlflowError."""
        return {"experiment": _shown(self._get(text(body, "experiment_id", "0")))}

    def get_by_name(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return an experiment by its name. Raises MlflowError."""
        name = text(body, "experiment_name")
        for experiment in self._experiments.values():
            if experiment["name"] == name:
                return {"experiment": _shown(experiment)}
        raise missing(f"There is no experiment '{name}'.")

    def set_tag(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Set a tag of an experiment. Raises MlflowError."""
        experiment = self._get(text(body, "experiment_id", "0"))
        key, value = named(body, text)
        if key not in experiment["tags"]:
            check_number(len(experiment["tags"]), "tags")
        experiment["tags"][key] = value
        experiment["last_update_time"] = now()
        return {}

    def search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of experiments, the newest first. Raises MlflowError."""
        if body.get("filter"):
            raise MlflowError("The portal does not filter experiments. Remove 'filter_string'.")
        known = list(self._experiments.values())[::-1] if only_active(body, "view_type") else []

        def value(experiment: dict[str, Any], kind: str, name: str) -> Any:
            return experiment["tags"].get(name) if kind == "tags" else experiment.get(name)

        shown, token = page(body, ordered(known, clauses_of(body), _ORDERS, value), _PAGE)
        return {"experiments": [_shown(experiment) for experiment in shown], **token}

    def _get(self, id_: str) -> dict[str, Any]:
        if id_ not in self._experiments:
            raise missing(f"There is no experiment '{id_}'.")
        return self._experiments[id_]

    def _add(self, name: str, tags: dict[str, str]) -> str:
        id_, moment = str(len(self._experiments)), now()
        self._experiments[id_] = {
            "experiment_id": id_,
            "name": name,
            "artifact_location": self._artifacts.as_uri(),
            "lifecycle_stage": "active",
            "creation_time": moment,
            "last_update_time": moment,
            "tags": tags,
        }
        return id_


def _shown(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment as MLflow's API has it."""
    return {**experiment, "tags": pairs(experiment["tags"])}
