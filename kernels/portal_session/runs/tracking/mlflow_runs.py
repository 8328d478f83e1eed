"""MLflow's runs of one point, by the part of MLflow's REST API that its client's logging uses
(https://mlflow.org/docs/latest/rest-api.html): metrics go to the point's metrics.jsonl, parameters
and tags to its mlflow.jsonl. Artifacts are written by the client itself, to the point's folder.
"""

from __future__ import annotations

import json
import math
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .mlflow_experiments import MlflowExperiments
from .mlflow_histories import Histories
from .mlflow_inputs import MlflowInputs
from .mlflow_models import PATH as MODELS
from .mlflow_models import MlflowModels
from .mlflow_order import clauses_of, only_active, ordered, page
from .mlflow_values import (
    MlflowError,
    check_arguments,
    check_number,
    is_newer,
    items,
    metric_of,
    missing,
    named,
    now,
    pairs,
    text,
    texts,
    whole,
)

FILE = "mlflow.jsonl"  # in the point's folder, beside metrics.jsonl
ARTIFACTS = "mlflow-artifacts"  # a folder there
_INFO = ("run_id", "run_uuid", "experiment_id", "run_name", "user_id", "status", "start_time",
         "end_time", "artifact_uri", "lifecycle_stage")  # fmt: skip


_STATES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
_ORDERS = {
    **{name: name for name in ("start_time", "end_time", "status", "run_name", "run_id")},
    **{name: name for name in ("artifact_uri", "user_id", "experiment_id")},
    **dict.fromkeys(("created", "Created"), "start_time"),
    **dict.fromkeys(("Run Name", "Run name", "run name"), "run_name"),
}
_PAGE = 1000
_PAGE_OF_HISTORY = 25_000
_LONGEST_MODEL = 1_000_000  # characters of its description
_NAME = "mlflow.runName"  # a tag, which is the run's name
_RUN = "run_id run_uuid "
_Call = Callable[[Mapping[str, Any]], dict[str, Any]]


class MlflowRuns:
    """Runs that the programs of a point have made, in its ``folder``. ``metrics``: the file of the
    point's metrics. `answer` may be called from any thread."""

    def __init__(self, folder: Path, metrics: Path, user: str) -> None:
        self._folder, self._metrics, self._user = folder, metrics, user
        self._lock = threading.Lock()
        self._experiments = MlflowExperiments(folder / ARTIFACTS)
        self._runs: dict[str, dict[str, Any]] = {}
        self._histories = Histories()
        self._models = MlflowModels(folder)
        self._inputs = MlflowInputs(self._models.get)
        # Each call, with its arguments: of any other, the caller is told.
        self._calls: dict[str, tuple[str, _Call]] = {
            "experiments/create": ("name artifact_location tags", self._experiments.create),
            "experiments/get": ("experiment_id", self._experiments.get),
            "experiments/get-by-name": ("experiment_name", self._experiments.get_by_name),
            "experiments/search": (
                "filter max_results order_by page_token view_type",
                self._experiments.search,
            ),
            "experiments/set-experiment-tag": (
                "experiment_id key value",
                self._experiments.set_tag,
            ),
            "runs/create": ("experiment_id user_id run_name start_time tags", self._create),
            "runs/get": (_RUN, lambda body: {"run": self._shown(self._run(body))}),
            "runs/update": (_RUN + "status end_time run_name", self._update),
            "runs/log-metric": (
                _RUN + "key value timestamp step model_id dataset_name dataset_digest",
                lambda body: self._log_batch({**body, "metrics": [body]}),
            ),
            "runs/log-batch": (_RUN + "metrics params tags", self._log_batch),
            "runs/log-parameter": (
                _RUN + "key value",
                lambda body: self._log_batch({**body, "params": [body]}),
            ),
            "runs/set-tag": (
                _RUN + "key value",
                lambda body: self._log_batch({**body, "tags": [body]}),
            ),
            "runs/delete-tag": (_RUN + "key", self._delete_tag),
            "runs/log-inputs": (_RUN + "datasets models", self._log_inputs),
            "runs/log-model": (_RUN + "model_json", self._log_model),
            "runs/outputs": (_RUN + "models", self._log_outputs),
            "runs/search": (
                "experiment_ids filter max_results order_by page_token run_view_type",
                self._search,
            ),
            "metrics/get-history": (_RUN + "metric_key max_results page_token", self._history),
        }

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call, such as "runs/create". Raises MlflowError, and OSError if
        the file system takes nothing."""
        if path not in self._calls:
            if path.split("/")[0] == MODELS:
                with self._lock:
                    return self._models.answer(path, body)
            raise MlflowError(
                "The portal accepts the metrics, parameters, tags and artifacts of runs; it has no "
                f"'{path[:100]}'. Set MLFLOW_TRACKING_URI to a server of MLflow for that.",
                "ENDPOINT_NOT_FOUND",
                404,
            )
        known, call = self._calls[path]
        check_arguments(path, body, known.split())
        with self._lock:
            return call(body)

    # -- runs --------------------------------------------------------------------------------------

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        check_number(len(self._runs), "runs")
        id_ = uuid.uuid4().hex
        tags = dict(named(item, text) for item in items(body, "tags"))
        name = text(body, "run_name", "") or tags.get(_NAME, "") or f"run-{id_[:8]}"
        if tags.setdefault(_NAME, name) != name:
            raise MlflowError(f"'run_name' and the tag '{_NAME}' have different values.")
        experiment = text(body, "experiment_id", "0") or "0"
        of_experiment = self._experiments.name(experiment)
        start = whole(body, "start_time", now())
        run = self._runs[id_] = {
            "run_id": id_,
            "run_uuid": id_,
            "experiment_id": experiment,
            "run_name": name,
            "user_id": text(body, "user_id", "") or self._user,
            "status": "RUNNING",
            "start_time": start,
            "artifact_uri": (self._folder / ARTIFACTS / id_).as_uri(),
            "lifecycle_stage": "active",
            "metrics": {},
            "params": {},
            "tags": {_NAME: name},
        }
        self._keep(run, name=name, experiment=of_experiment)
        self._take(run, "tags", tags)
        return {"run": self._shown(run)}

    def _run(self, body: Mapping[str, Any]) -> dict[str, Any]:
        id_ = text(body, "run_id", "") or text(body, "run_uuid")
        if id_ not in self._runs:
            raise missing(f"There is no run '{id_}' in this point.")
        return self._runs[id_]

    def _update(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run, status, name = self._run(body), body.get("status"), text(body, "run_name", "")
        if status and status not in _STATES:
            raise MlflowError(f"'status' must be one of: {', '.join(_STATES)}.")
        end = whole(body, "end_time", 0)
        if status:
            run["status"] = status
            self._keep(run, status=status)
        if end:
            run["end_time"] = end
        if name:
            self._take(run, "tags", {_NAME: name})
        return {"run_info": self._shown(run)["info"]}

    def _log_batch(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        metrics = [metric_of(item) for item in items(body, "metrics")]
        params = [named(item, text) for item in items(body, "params")]
        tags = dict(named(item, text) for item in items(body, "tags"))
        before = dict(run["params"])
        for name, value in params:
            if before.setdefault(name, value) != value:
                raise MlflowError(f"The parameter '{name}' of the run already has another value.")
        new = {metric["key"] for metric in metrics} - set(run["metrics"])
        check_number(len(run["metrics"]) + len(new) - 1, "metrics")
        for metric in metrics:
            if "model_id" in metric:
                self._models.get(metric["model_id"])
        self._take(run, "params", dict(params))
        self._take(run, "tags", tags)
        self._write(metrics)
        for metric in metrics:
            if is_newer(metric, run["metrics"].get(metric["key"])):
                run["metrics"][metric["key"]] = metric
            if "model_id" in metric:
                self._models.take(run["run_id"], metric)
            self._histories.add_value(run["run_id"], metric)
        return {}

    def _delete_tag(self, body: Mapping[str, Any]) -> dict[str, Any]:
        tags, name = self._run(body)["tags"], text(body, "key")
        if name not in tags:
            raise missing(f"The run has no tag '{name}'.")
        del tags[name]
        return {}

    def _log_inputs(self, body: Mapping[str, Any]) -> dict[str, Any]:
        run = self._run(body)
        for facts in self._inputs.add_inputs(run["run_id"], body):
            self._keep(run, **facts)
        return {}

    def _log_outputs(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._inputs.add_outputs(self._run(body)["run_id"], body)
        return {}

    def _log_model(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Add a model to the tag where MLflow's server keeps the models of a run."""
        run = self._run(body)
        self._inputs.add_logged(run["tags"], text(body, "model_json", longest=_LONGEST_MODEL))
        return {}

    def _search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of the runs of the experiments, the newest first; filters are not known,
        and refused."""
        if body.get("filter"):
            raise MlflowError("The portal does not filter runs. Remove 'filter_string'.")
        ids = texts(body, "experiment_ids") if only_active(body, "run_view_type") else []
        runs = [run for run in self._runs.values() if run["experiment_id"] in ids]
        runs.sort(key=lambda run: (-run["start_time"], run["run_id"]))
        shown, token = page(body, ordered(runs, clauses_of(body), _ORDERS, _value), _PAGE)
        return {"runs": [self._shown(run) for run in shown], **token}

    def _history(self, body: Mapping[str, Any]) -> dict[str, Any]:
        values = self._histories.get(self._run(body)["run_id"], text(body, "metric_key"))
        shown, token = page(body, values, _PAGE_OF_HISTORY)
        return {"metrics": shown, **token}

    def _shown(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Return a run as MLflow's API has it."""
        info = {name: run[name] for name in _INFO if name in run}
        data = {
            "metrics": list(run["metrics"].values()),
            "params": pairs(run["params"]),
            "tags": pairs(run["tags"]),
        }
        return {"info": info, "data": data, **self._inputs.shown(run["run_id"])}

    # -- files -------------------------------------------------------------------------------------

    def _take(self, run: dict[str, Any], kind: str, values: Mapping[str, str]) -> None:
        new = {name: value for name, value in values.items() if run[kind].get(name) != value}
        if new:
            check_number(len(run[kind]) + len(new) - 1, kind)
            run[kind].update(new)
            self._keep(run, **{kind: new})
        if kind == "tags" and new.get(_NAME, run["run_name"]) != run["run_name"]:
            run["run_name"] = new[_NAME]
            self._keep(run, name=new[_NAME])

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


def _value(run: Mapping[str, Any], kind: str, name: str) -> Any:
    """Return the value of a run that it is ordered by; None without one."""
    if kind == "metrics":
        metric = run["metrics"].get(name)
        return None if metric is None else float(metric["value"])
    return run.get(name) if kind == "attributes" else run[kind].get(name)
