"""Models that MLflow's client logs in a point. The client writes their files itself, to the point's
folder; this keeps what it asks for meanwhile. Without it, MLflow's autologging gives up, and its
metrics are lost too."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .mlflow_order import page, sort
from .mlflow_values import (
    MOST,
    MlflowError,
    check_arguments,
    check_number,
    is_newer,
    items,
    missing,
    named,
    now,
    pairs,
    text,
    texts,
)

MODELS = "mlflow-models"  # a folder in the point's
PATH = "logged-models"
_ID = re.compile(rf"{PATH}/(m-[0-9a-f]{{32}})(/params|/tags)?")
_STATES = ("LOGGED_MODEL_PENDING", "LOGGED_MODEL_READY", "LOGGED_MODEL_UPLOAD_FAILED")
_CREATED = ("experiment_id", "name", "model_type", "source_run_id", "params", "tags")
_SEARCHED = ("experiment_ids", "filter", "datasets", "max_results", "order_by", "page_token")
_ORDERS = {"name": "name", "model_id": "model_id", "model_type": "model_type", "status": "status",
           "source_run_id": "source_run_id", "creation_time": "creation_timestamp_ms",
           "creation_timestamp": "creation_timestamp_ms",
           "last_updated_timestamp": "last_updated_timestamp_ms"}  # fmt: skip
_PAGE = 100


class MlflowModels:
    """Models of a point, whose files are in its ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / MODELS
        self._models: dict[str, dict[str, Any]] = {}

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call below PATH. Raises MlflowError."""
        if path == PATH:
            check_arguments(path, body, _CREATED)
            return self._create(body)
        if path == f"{PATH}/search":
            check_arguments(path, body, _SEARCHED)
            return self._search(body)
        asked = _ID.fullmatch(path)
        if asked is None:
            raise missing(f"The portal has no '{path[:100]}' of models.")
        model, kind = self.get(asked[1]), (asked[2] or "")[1:]
        check_arguments(path, body, ("model_id", kind or "status"))
        if kind:
            new = dict(named(item, text) for item in items(body, kind))
            check_number(len(model[kind]) + len(new) - 1, kind)
            model[kind].update(new)
            model["last_updated_timestamp_ms"] = now()
            return {} if kind == "params" else {"model": _shown(model)}
        if body.get("status"):
            if body["status"] not in _STATES:
                raise MlflowError(f"'status' must be one of: {', '.join(_STATES)}.")
            model["status"], model["last_updated_timestamp_ms"] = body["status"], now()
        return {"model": _shown(model)}

    def get(self, id_: str) -> dict[str, Any]:
        """Return a model of the point. Raises MlflowError if there is none of this id."""
        if id_ not in self._models:
            raise missing("There is no such model in this point.")
        return self._models[id_]

    def take(self, run: str, metric: Mapping[str, Any]) -> None:
        """Keep the newest value of a metric of the model that it names. Raises MlflowError."""
        metrics = self.get(metric["model_id"])["metrics"]
        key = metric["key"], metric.get("dataset_name"), metric.get("dataset_digest")
        if key not in metrics:
            check_number(len(metrics), "metrics")
        if is_newer(metric, metrics.get(key)):
            metrics[key] = {**metric, "run_id": run}

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if len(self._models) >= MOST:
            raise MlflowError(f"A point has at most {MOST:,} models.")
        id_, moment = f"m-{uuid.uuid4().hex}", now()
        optional = {name: text(body, name) for name in ("model_type", "source_run_id")
                    if body.get(name)}  # fmt: skip
        model = self._models[id_] = {
            "model_id": id_,
            "experiment_id": text(body, "experiment_id", "0"),
            "name": text(body, "name", "") or id_,
            "creation_timestamp_ms": moment,
            "last_updated_timestamp_ms": moment,
            "artifact_uri": (self._place / id_).as_uri(),
            "status": "LOGGED_MODEL_PENDING",
            **optional,
            "params": dict(named(item, text) for item in items(body, "params")),
            "tags": dict(named(item, text) for item in items(body, "tags")),
            "metrics": {},
        }
        return {"model": _shown(model)}

    def _search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of the models of the experiments, the newest first; filters are not known,
        and refused."""
        for name in ("filter", "datasets"):
            if body.get(name):
                raise MlflowError(f"The portal does not filter models. Remove '{name}'.")
        ids = texts(body, "experiment_ids")
        models = [model for model in self._models.values() if model["experiment_id"] in ids][::-1]
        for order in reversed(items(body, "order_by")):
            known = ("field_name", "ascending", "dataset_name", "dataset_digest")
            check_arguments("order_by", order, known)
            kind, _, name = text(order, "field_name").rpartition(".")
            if kind not in ("", "metrics") or (not kind and name not in _ORDERS):
                raise MlflowError(
                    f"The portal cannot order models by '{kind}.{name}'. Use metrics.NAME or one "
                    f"of: {', '.join(_ORDERS)}."
                )

            def value(model: dict[str, Any], kind: str, name: str, order: Any = order) -> Any:
                return _newest(model, name, order) if kind else model.get(_ORDERS[name])

            sort(models, kind, name, value, descending=order.get("ascending", True) is False)
        shown, token = page(body, models, _PAGE)
        return {"models": [_shown(model) for model in shown], **token}


def _newest(model: Mapping[str, Any], name: str, order: Mapping[str, Any]) -> float | None:
    """Return the newest value of a metric, of the data set that the order names if it does."""
    newest: Mapping[str, Any] | None = None
    for metric in model["metrics"].values():
        wanted = [order.get(of) in (None, "", metric.get(of))
                  for of in ("dataset_name", "dataset_digest")]  # fmt: skip
        if metric["key"] == name and all(wanted) and is_newer(metric, newest):
            newest = metric
    return None if newest is None else float(newest["value"])


def _shown(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model as MLflow's API has it."""
    apart = ("params", "tags", "metrics")
    info = {name: value for name, value in model.items() if name not in apart}
    data = {"params": pairs(model["params"]), "metrics": list(model["metrics"].values())}
    return {"info": {**info, "tags": pairs(model["tags"])}, "data": data}
