"""MLflow's API of a point: what it keeps, and whom it answers. With MLflow's own client:
tests/integration/runs/test_run_tracking.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from portal_session.kernels.container import Container
from portal_session.runs.tracking.mlflow_runs import FILE, MlflowRuns
from portal_session.runs.tracking.mlflow_server import TOKEN, URI, MlflowServer
from portal_session.runs.tracking.mlflow_values import MlflowError
from portal_session.runs.tracking.tracking import Tracking


@pytest.fixture
def runs(tmp_path: Path) -> MlflowRuns:
    return MlflowRuns(tmp_path, tmp_path / "metrics.jsonl", "ada")


def created(runs: MlflowRuns, **more: Any) -> str:
    return str(runs.answer("runs/create", {"experiment_id": "0", **more})["run"]["info"]["run_id"])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_metrics_of_a_step_are_a_line(runs: MlflowRuns, tmp_path: Path) -> None:
    run = created(runs)
    metrics = [
        {"key": "loss", "value": 0.5, "step": "7", "timestamp": "1700000000000"},
        {"key": "grad", "value": "NaN", "step": 7},
        {"key": "loss", "value": 0.25, "step": 8},
    ]
    runs.answer("runs/log-batch", {"run_id": run, "metrics": metrics})
    assert lines(tmp_path / "metrics.jsonl") == [
        {"loss": 0.5, "grad": "nan", "step": 7},
        {"loss": 0.25, "step": 8},
    ]
    shown = runs.answer("runs/get", {"run_id": run})["run"]["data"]["metrics"]
    assert {metric["key"]: metric["value"] for metric in shown} == {"loss": 0.25, "grad": "NaN"}


def test_a_refused_batch_keeps_nothing(runs: MlflowRuns, tmp_path: Path) -> None:
    run = created(runs)
    runs.answer("runs/log-parameter", {"run_id": run, "key": "lr", "value": "0.1"})
    runs.answer("runs/log-parameter", {"run_id": run, "key": "lr", "value": "0.1"})
    before = (tmp_path / FILE).read_text()
    assert before.count("lr") == 1
    metric = {"key": "loss", "value": 1}
    with pytest.raises(MlflowError, match="'lr' of the run already has another value"):
        batch = {"run_id": run, "metrics": [metric], "params": [{"key": "lr", "value": "1"}]}
        runs.answer("runs/log-batch", batch)
    assert (tmp_path / FILE).read_text() == before and not (tmp_path / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("runs/get", {"run_id": "0"}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/get", {"run_id": 7}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"key": "loss", "value": {}}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"key": "loss", "value": "many"}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"key": "loss", "value": 10**400}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"key": "x" * 251, "value": 1}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"value": 1}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-metric", {"key": "a", "value": 1, "step": 2**64}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-batch", {"metrics": "x"}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-batch", {"tags": [1]}, "INVALID_PARAMETER_VALUE"),
        ("runs/set-tag", {"key": "a", "value": "x" * 9000}, "INVALID_PARAMETER_VALUE"),
        ("runs/create", {"experiment_id": "9"}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/search", {"filter": "metrics.a > 1"}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"order_by": ["speed"]}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"order_by": ["metrics.a sideways"]}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"order_by": "'; --"}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"max_results": 0}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"max_results": 50_001}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"page_token": "-1"}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"run_view_type": "MINE"}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"experiment_ids": [7]}, "INVALID_PARAMETER_VALUE"),
        ("runs/update", {"status": "DONE"}, "INVALID_PARAMETER_VALUE"),
        ("runs/update", {"end_time": "late"}, "INVALID_PARAMETER_VALUE"),
        ("runs/delete-tag", {"key": "none"}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/log-metric", {"key": "a", "value": 1, "model_id": "m-0"}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/log-inputs", {"datasets": [{"dataset": {"name": "a"}}]}, "INVALID_PARAMETER_VALUE"),
        ("runs/log-inputs", {"models": [{"model_id": "m-0"}]}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/outputs", {"models": [{"model_id": "m-0"}]}, "RESOURCE_DOES_NOT_EXIST"),
        ("runs/log-model", {"model_json": "[]"}, "INVALID_PARAMETER_VALUE"),
        ("metrics/get-history", {"metric_key": "a", "max_results": -1}, "INVALID_PARAMETER_VALUE"),
        (
            "runs/create",
            {"run_name": "a", "tags": [{"key": "mlflow.runName", "value": "b"}]},
            "INVALID_PARAMETER_VALUE",
        ),
        ("experiments/search", {"filter": "name = 'x'"}, "INVALID_PARAMETER_VALUE"),
        (
            "experiments/create",
            {"name": "x", "artifact_location": "s3://x"},
            "INVALID_PARAMETER_VALUE",
        ),
        ("logged-models/search", {"filter": "name = 'x'"}, "INVALID_PARAMETER_VALUE"),
        ("logged-models/search", {"datasets": [{"dataset_name": "x"}]}, "INVALID_PARAMETER_VALUE"),
        ("logged-models/search", {"order_by": [{"field_name": "x"}]}, "INVALID_PARAMETER_VALUE"),
        ("experiments/get-by-name", {"experiment_name": "x"}, "RESOURCE_DOES_NOT_EXIST"),
        ("experiments/create", {"name": "Default"}, "RESOURCE_ALREADY_EXISTS"),
        ("registered-models/create", {}, "ENDPOINT_NOT_FOUND"),
        ("logged-models", {"name": 7}, "INVALID_PARAMETER_VALUE"),
        ("logged-models/m-0", {}, "RESOURCE_DOES_NOT_EXIST"),
        ("logged-models/../x", {}, "RESOURCE_DOES_NOT_EXIST"),
        ("../../etc/passwd", {}, "ENDPOINT_NOT_FOUND"),
    ],
)
def test_calls_that_are_refused(
    runs: MlflowRuns, path: str, body: dict[str, Any], code: str
) -> None:
    own = {"run_id": created(runs)} if path.startswith("runs/") and path != "runs/create" else {}
    with pytest.raises(MlflowError) as error:
        runs.answer(path, {**own, **body})
    assert error.value.code == code


def test_arguments_that_are_not_known_are_refused(runs: MlflowRuns) -> None:
    """Of every route: an argument of a later version of MLflow would be lost without a word."""
    for path in runs._calls:
        with pytest.raises(MlflowError, match=f"does not know the argument 'colour' of '{path}'"):
            runs.answer(path, {"colour": "red"})
    with pytest.raises(MlflowError, match="does not know the argument 'colour'"):
        runs.answer("logged-models", {"name": "net", "colour": "red"})


def test_the_history_is_whole_or_refused(runs: MlflowRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    run = created(runs)
    body = {"run_id": run, "metric_key": "loss"}
    monkeypatch.setattr(runs._histories, "_left", 3)
    for step in range(4):
        assert len(runs.answer("metrics/get-history", body)["metrics"]) == step
        runs.answer("runs/log-metric", {"run_id": run, "key": "loss", "value": 1, "step": step})
    with pytest.raises(MlflowError, match=r"this metric has more. All are in .*metrics.jsonl"):
        runs.answer("metrics/get-history", body)


def test_models(runs: MlflowRuns, tmp_path: Path) -> None:
    """MLflow 3 logs one for each fit, before its metrics."""
    params = [{"key": "a", "value": "1"}]
    model = runs.answer("logged-models", {"name": "net", "model_type": "x", "params": params})
    info = model["model"]["info"]
    assert info["artifact_uri"] == (tmp_path / "mlflow-models" / info["model_id"]).as_uri()
    path = f"logged-models/{info['model_id']}"
    assert runs.answer(f"{path}/params", {"params": [{"key": "b", "value": "2"}]}) == {}
    runs.answer(f"{path}/tags", {"tags": [{"key": "t", "value": "u"}]})
    runs.answer(path, {"status": "LOGGED_MODEL_READY"})
    found = runs.answer(path, {})["model"]
    assert (found["info"]["status"], found["info"]["name"]) == ("LOGGED_MODEL_READY", "net")
    assert found["info"]["tags"] == [{"key": "t", "value": "u"}]
    assert found["data"]["params"] == [*params, {"key": "b", "value": "2"}]
    search = {"experiment_ids": ["0"]}
    assert len(runs.answer("logged-models/search", search)["models"]) == 1
    assert runs.answer("logged-models/search", {"experiment_ids": ["1"]})["models"] == []


# -- the server ------------------------------------------------------------------------------------


@pytest.fixture
def server(runs: MlflowRuns) -> Iterator[MlflowServer]:
    server = MlflowServer(runs)
    assert server.variables({}) == {}
    server.start()
    yield server
    server.close()


def ask(server: MlflowServer, token: str | None = None, **more: Any) -> httpx.Response:
    variables = server.variables({})
    given = variables[TOKEN] if token is None else token
    headers = {"Authorization": f"Bearer {given}"}
    address = f"{variables[URI]}/api/2.0/mlflow/runs/create"
    return httpx.post(address, headers=headers, trust_env=False, timeout=60, **more)


def test_only_the_token_opens_it(server: MlflowServer, tmp_path: Path) -> None:
    for token in ("none", "x", "*" * 100):
        answer = ask(server, token, json={})
        assert (answer.status_code, answer.json()["error_code"]) == (401, "UNAUTHENTICATED")
    assert not (tmp_path / FILE).exists()
    answer = ask(server, json={"run_name": "first"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["run"]["info"]["run_name"] == "first"
    assert lines(tmp_path / FILE)[0]["name"] == "first"


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"[" * 100_000, b"x" * (4 * 1024 * 1024 + 1)], ids=range(4)
)
def test_bodies_that_are_none(server: MlflowServer, content: bytes) -> None:
    answer = ask(server, content=content)
    assert answer.status_code == 400 and answer.json()["message"].endswith(".")
    assert ask(server, json={}).status_code == 200, "it goes on"


def test_its_variables(server: MlflowServer) -> None:
    assert server.variables({URI: "http://mlflow.example.org"}) == {}
    variables = server.variables({"no_proxy": "example.org"})
    assert variables["NO_PROXY"] == variables["no_proxy"] == "example.org,127.0.0.1"
    assert variables[URI].startswith("http://127.0.0.1:")


def test_a_container_beside_the_point_s_process_has_them_too(tmp_path: Path) -> None:
    environ = {
        "PORTAL_CONTAINER": json.dumps({"exec": ["apptainer", "exec"], "image": "a", "roots": []}),
        "PORTAL_PASSED": "HF_HOME",
    }
    tracking = Tracking(tmp_path, tmp_path / "metrics.jsonl", tmp_path)
    variables = tracking.begin(environ)
    container = Container.from_environ(environ)
    assert container is not None
    inside = container.environment({**variables, "HF_HOME": "/h", "SECRET": "x"})
    for name in (*variables, "HF_HOME"):
        assert f"APPTAINERENV_{name}" in inside
    assert "APPTAINERENV_SECRET" not in inside
    assert variables["PORTAL_LOGS"] == str(tmp_path / "logs")
