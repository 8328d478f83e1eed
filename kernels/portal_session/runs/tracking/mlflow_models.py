"""Models that MLflow's client logs in a point. The client writes their files itself, to the point's
folder; this keeps what it asks for meanwhile. Without it, MLflow's autologging gives up, and its
metrics are lost too."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .mlflow_values import MOST, MlflowError, check_number, items, missing, named, now, text

MODELS = "mlflow-models"  # a folder in the point's
PATH = "logged-models"
_ID = re.compile(rf"{PATH}/(m-[0-9a-f]{{32}})(/params|/tags)?")


class MlflowModels:
    """Models of a point, whose files are in its ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / MODELS
        self._models: dict[str, dict[str, Any]] = {}

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call below PATH. Raises MlflowError."""
        if path == PATH:
            return self._create(body)
        if path == f"{PATH}/search":
            return {"models": [_shown(model) for model in self._models.values()][::-1]}
        asked = _ID.fullmatch(path)
        model = self._models.get(asked[1]) if asked else None
        if asked is None or model is None:
            raise missing("There is no such model in this point.")
        if asked[2] is not None:
            kind = asked[2][1:]
            new = dict(named(item, text) for item in items(body, kind))
            check_number(len(model[kind]) + len(new) - 1, kind)
            model[kind].update(new)
            return {} if kind == "params" else {"model": _shown(model)}
        status = body.get("status")
        if isinstance(status, str) and re.fullmatch("[A-Z_]{1,40}", status):
            model["status"] = status
        return {"model": _shown(model)}

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
        }
        return {"model": _shown(model)}


def _shown(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model as MLflow's API has it."""
    params, tags = ([{"key": name, "value": value} for name, value in model[kind].items()]
                    for kind in ("params", "tags"))  # fmt: skip
    info = {name: value for name, value in model.items() if name not in ("params", "tags")}
    return {"info": {**info, "tags": tags}, "data": {"params": params, "metrics": []}}
