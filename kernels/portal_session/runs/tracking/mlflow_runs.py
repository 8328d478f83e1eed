"""MLflow's runs of one point, by the part of MLflow's REST API that its client's logging uses
(https://mlflow.org/docs/latest/rest-api.html): metrics go to the point's metrics.jsonl, parameters
and tags to its mlflow.jsonl. Artifacts are written by the client itself, to the point's folder.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .mlflow_models import PATH as MODELS
from .mlflow_models import MlflowModels
from .mlflow_values import (
    MlflowError,
    check_number,
    items,
    metric_of,
    missing,
    named,
    now,
    text,
    whole,
)

FILE = "mlflow.jsonl"  # in the point's folder, beside metrics.jsonl
ARTIFACTS = "mlflow-artifacts"  # a folder there
_INFO = ("run_id", "run_uuid", "experiment_id", "run_name", "user_id", "status", "start_time",
         "end_time", "artifact_uri", "lifecycle_stage")  # fmt: skip


class MlflowRuns:
    """Runs that the programs of a point have made, in its ``folder``. ``metrics``: the file of the
    point's metrics. `answer` may be called from any thread."""

    def __init__(self, folder: Path, metrics: Path, user: str) -> None:
        self._folder, self._metrics, self._user = folder, metrics, user
        self._lock = threading.Lock()
        self._experiments = {"0": "Default"}
        self._runs: dict[str, dict[str, Any]] = {}
        self._models = MlflowModels(folder)
        self._calls: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "experiments/create": self._create_experiment,
            "experiments/get": lambda body: self._experiment(text(body, "experiment_id", "0")),
            "experiments/get-by-name": self._experiment_by_name,
            "experiments/search": lambda body: {"experiments": self._all_experiments()},
            "experiments/set-experiment-tag": lambda body: {},
            "runs/create": self._create,
            "runs/get": lambda body: {"run": _shown(self._run(body))},
            "runs/update": self._update,
            "runs/log-metric": self._log_metric,
            "runs/log-batch": self._log_batch,
            "runs/log-parameter": lambda body: self._log_batch({**body, "params": [body]}),
            "runs/set-tag": lambda body: self._log_batch({**body, "tags": [body]}),
            "runs/delete-tag": self._delete_tag,
            "runs/log-inputs": lambda body: {},
            "runs/log-model": lambda body: {},
            "runs/outputs": lambda body: {},
            "runs/search": self._search,
            "metrics/get-history": self._history,
        }

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call, such as "runs/create". Raises MlflowError, and OSError if
        the file system takes nothing."""
        call = self._calls.get(path)
        if call is None and path.split("/")[0] == MODELS:
            with self._lock:
                return self._models.answer(path, body)
        if call is None:
            raise MlflowError(
                "The portal accepts the metrics, parameters, tags and artifacts of runs; it has no "
                f"'{path[:100]}'. Set MLFLOW_TRACKING_URI to a server of MLflow for that.",
                "ENDPOINT_NOT_FOUND",
                404,
            )
        with self._lock:
            return call(body)

    # -- experiments -------------------------------------------------------------------------------

    def _create_experiment(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name = text(body, "name")
        if name in self._experiments.values():
            raise MlflowError(f"The experiment '{name}' already exists.", "RESOURCE_ALREADY_EXISTS")
        check_number(len(self._experiments), "experiments")
        id_ = str(len(self._experiments))
        self._experiments[id_] = name
        return {"experiment_id": id_}

    def _experiment(self, id_: str) -> dict[str, Any]:
        if id_ not in self._experiments:
            raise missing(f"There is no experiment '{id_}'.")
        return {
            "experiment": {
                "experiment_id": id_,
                "name": self._experiments[id_],
                "artifact_location": (self._folder / ARTIFACTS).as_uri(),
                "lifecycle_stage": "active",
            }
        }

    def _experiment_by_name(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name = text(body, "experiment_name")
        for id_, known in self._experiments.items():
            if known == name:
                return self._experiment(id_)
        raise missing(f"There is no experiment '{name}'.")

    def _all_experiments(self) -> list[Any]:
        return [self._experiment(id_)["experiment"] for id_ in self._experiments]

    # -- runs --------------------------------------------------------------------------------------

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        check_number(len(self._runs), "runs")
        id_ = uuid.uuid4().hex
        tags = dict(named(item, text) for item in items(body, "tags"))
        name = text(body, "run_name", "") or tags.get("mlflow.runName", "") or f"run-{id_[:8]}"
        experiment = text(body, "experiment_id", "0") or "0"
        self._experiment(experiment)
        run = self._runs[id_] = {
            "run_id": id_,
            "run_uuid": id_,
            "experiment_id": experiment,
            "run_name": name,
            "user_id": self._user,
            "status": "RUNNING",
            "start_time": whole(body, "start_time", now()),
            "artifact_uri": (self._folder / ARTIFACTS / id_).as_uri(),
            "lifecycle_stage": "active",
            "metrics": {},
            "params": {},
            "tags": {"mlflow.runName": name},
        }
        self._keep(run, name=name, experiment=self._experiments[experiment])
        self._take(run, "tags", tags)
        return {"run": _shown(run)}

    def _run(self, body: Mapping[str, Any]) -> dict[str, Any]:
        id_ = text(body, "run_id", "") or text(body, "run_uuid")
        if id_ not in self._runs:
            raise missing(f"There is no run '{id_}' in this point.")
        return self._runs[id_]

    def _update(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        status = body.get("status")
        if isinstance(status, str) and re.fullmatch("[A-Z]{1,20}", status):
            run["status"] = status
            self._keep(run, status=status)
        if body.get("end_time"):
            run["end_time"] = whole(body, "end_time", 0)
        if body.get("run_name"):
            run["run_name"] = run["tags"]["mlflow.runName"] = text(body, "run_name")
            self._keep(run, name=run["run_name"])
        return {"run_info": _shown(run)["info"]}

    def _log_metric(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._log_batch({**body, "metrics": [body]})

    def _log_batch(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        metrics = [metric_of(item) for item in items(body, "metrics")]
        params = dict(named(item, text) for item in items(body, "params"))
        tags = dict(named(item, text) for item in items(body, "tags"))
        for name, value in params.items():
            if run["params"].get(name, value) != value:
                raise MlflowError(f"The parameter '{name}' of the run already has another value.")
        self._take(run, "params", params)
        self._take(run, "tags", tags)
        for metric in metrics:
            if metric["key"] not in run["metrics"]:
                check_number(len(run["metrics"]), "metrics")
            run["metrics"][metric["key"]] = metric
        self._write(metrics)
        return {}

    def _delete_tag(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._run(body)["tags"].pop(text(body, "key"), None)
        return {}

    def _search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the runs of the experiments; filters are not known, and refused."""
        if body.get("filter"):
            raise MlflowError("The portal does not filter runs. Remove 'filter_string'.")
        asked = body.get("experiment_ids")
        ids = {str(id_) for id_ in asked} if isinstance(asked, list) else set(self._experiments)
        runs = [_shown(run) for run in self._runs.values() if run["experiment_id"] in ids]
        return {"runs": runs[::-1][:1000]}

    def _history(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the newest value only: metrics.jsonl has the others."""
        metric = self._run(body)["metrics"].get(text(body, "metric_key"))
        return {"metrics": [] if metric is None else [metric]}

    # -- files -------------------------------------------------------------------------------------

    def _take(self, run: dict[str, Any], kind: str, values: Mapping[str, str]) -> None:
        new = {name: value for name, value in values.items() if run[kind].get(name) != value}
        if new:
            check_number(len(run[kind]) + len(new) - 1, kind)
            run[kind].update(new)
            self._keep(run, **{kind: new})

    def _keep(self, run: Mapping[str, Any], **facts: Any) -> None:
        _append(self._folder / FILE, [{"run_id": run["run_id"], **facts}])

    def _write(self, metrics: list[dict[str, Any]]) -> None:
        """Append metrics, those of one step in one line."""
        lines: dict[int, dict[str, Any]] = {}
        for metric in metrics:
            value = float(metric["value"])
            json_number = value if math.isfinite(value) else str(value)  # as portal_metrics has it
            lines.setdefault(int(metric["step"]), {})[metric["key"]] = json_number
        if lines:
            _append(self._metrics, [{**line, "step": step} for step, line in lines.items()])


def _append(path: Path, lines: list[dict[str, Any]]) -> None:
    """Append lines of JSON in one write: those of several programs do not mix."""
    text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, text.encode("utf-8", "replace"))
    finally:
        os.close(file)


def _shown(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run as MLflow's API has it."""
    data = {kind: [{"key": name, "value": value} for name, value in run[kind].items()]
            for kind in ("params", "tags")}  # fmt: skip
    info = {name: run[name] for name in _INFO if name in run}
    return {"info": info, "data": {**data, "metrics": list(run["metrics"].values())}}
