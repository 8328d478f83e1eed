"""Answers of a point's MLflow API to MLflow's own client: each is what a server of MLflow answers,
or a refusal; never something else than was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs.tracking.mlflow_runs import MlflowRuns
from portal_session.runs.tracking.mlflow_server import MlflowServer

mlflow = pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("point")
    server = MlflowServer(MlflowRuns(folder, folder / "metrics.jsonl", "ada"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.variables({}).items():
            patch.setenv(name, value)
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        yield mlflow.MlflowClient(server.variables({})["MLFLOW_TRACKING_URI"])
    server.close()


@pytest.fixture
def experiment(client: Any, request: pytest.FixtureRequest) -> str:
    return str(client.create_experiment(request.node.name, tags={"team": "a"}))


def names(runs: Any) -> list[str]:
    return [run.info.run_name for run in runs]


@pytest.fixture
def runs(client: Any, experiment: str) -> str:
    """Five runs with losses 3, 1, 2, NaN and none; return their experiment."""
    for number, loss in enumerate((3.0, 1.0, 2.0, math.nan, None)):
        run = client.create_run(experiment, run_name=f"r{number}", start_time=1000 + number)
        if loss is not None:
            client.log_metric(run.info.run_id, "val/loss", loss)
        client.log_param(run.info.run_id, "opt", "ab"[number % 2])
    client.create_run("0", run_name="of another experiment")
    return experiment


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([], ["r4", "r3", "r2", "r1", "r0"]),
        (["metrics.`val/loss` ASC"], ["r1", "r2", "r0", "r3", "r4"]),
        (["metrics.`val/loss` DESC"], ["r0", "r2", "r1", "r3", "r4"]),
        (['metric."val/loss"'], ["r1", "r2", "r0", "r3", "r4"]),
        (["params.opt desc", "start_time asc"], ["r1", "r3", "r0", "r2", "r4"]),
        (["attributes.start_time ASC"], ["r0", "r1", "r2", "r3", "r4"]),
        (["tags.`mlflow.runName`"], ["r0", "r1", "r2", "r3", "r4"]),
        (["created"], ["r0", "r1", "r2", "r3", "r4"]),
    ],
)
def test_runs_are_ordered(client: Any, runs: str, order: list[str], expected: list[str]) -> None:
    assert names(client.search_runs([runs], order_by=order)) == expected


def test_runs_come_in_pages(client: Any, runs: str) -> None:
    best = client.search_runs([runs], order_by=["metrics.`val/loss` ASC"], max_results=1)
    assert names(best) == ["r1"]
    pages, token = [], None
    while True:
        page = client.search_runs([runs], max_results=2, page_token=token)
        pages.append(names(page))
        token = page.token
        if not token:
            break
    assert pages == [["r4", "r3"], ["r2", "r1"], ["r0"]]
    view = mlflow.entities.ViewType
    assert names(client.search_runs([runs], run_view_type=view.DELETED_ONLY)) == []
    assert len(client.search_runs([runs], run_view_type=view.ALL)) == 5
    assert names(client.search_runs([])) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter_string": "metrics.loss < 1"},
        {"order_by": ["speed"]},
        {"order_by": ["attributes.nothing"]},
        {"max_results": 50_001},
        {"page_token": "abc"},
    ],
)
def test_searches_that_are_refused(client: Any, runs: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(mlflow.MlflowException) as error:
        client.search_runs([runs], **arguments)
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"


def test_a_history_has_all_values(client: Any, experiment: str) -> None:
    run = client.create_run(experiment).info.run_id
    values = [0.5, 0.25, math.inf, 3, math.nan]
    for step, value in enumerate(values):
        client.log_metric(run, "loss", value, timestamp=1000 + step, step=step)
    client.log_metric(run, "other", 7)
    history = client.get_metric_history(run, "loss")
    assert [(metric.step, metric.timestamp) for metric in history] == [
        (step, 1000 + step) for step in range(5)
    ]
    assert [metric.value for metric in history[:4]] == values[:4]
    assert math.isnan(history[4].value)
    assert list(client.get_metric_history(run, "none")) == []
    part = client._tracking_client.store.get_metric_history(run, "loss", max_results=2)
    assert [metric.step for metric in part] == [0, 1] and part.token


def test_the_newest_value_is_of_the_last_step(client: Any, experiment: str) -> None:
    run = client.create_run(experiment).info.run_id
    for step in (3, 1, 2):
        client.log_metric(run, "loss", step / 10, step=step)
    assert client.get_run(run).data.metrics == {"loss": 0.3}


def test_inputs_and_outputs_are_kept(client: Any, experiment: str) -> None:
    entities = mlflow.entities
    run = client.create_run(experiment).info.run_id
    model = client.create_logged_model(experiment, name="net", source_run_id=run)
    dataset = entities.Dataset("digits", "abc", "local", "file:///d", schema="s" * 9000)
    context = entities.InputTag("mlflow.data.context", "training")
    client.log_inputs(
        run,
        [entities.DatasetInput(dataset, [context])],
        [entities.LoggedModelInput(model.model_id)],
    )
    client.log_outputs(run, [entities.LoggedModelOutput(model.model_id, step=3)])
    shown = client.get_run(run)
    (kept,) = shown.inputs.dataset_inputs
    assert dict(kept.dataset) == dict(dataset) and dict(kept.tags[0]) == dict(context)
    assert [item.model_id for item in shown.inputs.model_inputs] == [model.model_id]
    assert [(item.model_id, item.step) for item in shown.outputs.model_outputs] == [
        (model.model_id, 3)
    ]
    assert not client.search_runs(["0"])[0].inputs.dataset_inputs


def test_metrics_of_models_and_their_order(client: Any, experiment: str) -> None:
    run = client.create_run(experiment).info.run_id
    models = [client.create_logged_model(experiment, name=f"m{number}") for number in range(3)]
    for number, model in enumerate(models[:2]):
        for step in range(2):
            client.log_metric(run, "acc", number + step / 2, step=step, model_id=model.model_id)
        client.finalize_logged_model(model.model_id, "READY")
    shown = client.get_logged_model(models[1].model_id)
    assert [(metric.key, metric.value, metric.step) for metric in shown.metrics] == [
        ("acc", 1.5, 1)
    ]
    assert str(shown.status) == "READY"

    def found(**more: Any) -> list[str]:
        return [model.name for model in client.search_logged_models([experiment], **more)]

    assert found() == ["m2", "m1", "m0"]
    assert found(order_by=[{"field_name": "metrics.acc", "ascending": False}]) == ["m1", "m0", "m2"]
    assert found(order_by=[{"field_name": "name"}], max_results=2) == ["m0", "m1"]
    history = client.get_metric_history(run, "acc")
    assert [metric.model_id for metric in history] == [
        models[number].model_id for number in (0, 0, 1, 1)
    ]
    with pytest.raises(mlflow.MlflowException):
        client.search_logged_models([experiment], filter_string="name = 'm0'")
    with pytest.raises(mlflow.MlflowException):
        client.delete_logged_model(models[0].model_id)


def test_experiments(client: Any, experiment: str) -> None:
    client.set_experiment_tag(experiment, "stage", "b")
    shown = client.get_experiment(experiment)
    assert shown.tags == {"team": "a", "stage": "b"} and shown.creation_time
    assert client.get_experiment_by_name(shown.name).experiment_id == experiment
    found = client.search_experiments(max_results=2)
    assert [int(item.experiment_id) for item in found] == [int(experiment), int(experiment) - 1]
    assert client.search_experiments(order_by=["experiment_id ASC"])[0].name == "Default"
    view = mlflow.entities.ViewType
    assert not client.search_experiments(view_type=view.DELETED_ONLY)
    for refused in (
        lambda: client.create_experiment("x", artifact_location="s3://elsewhere"),
        lambda: client.search_experiments(filter_string="name = 'x'"),
        lambda: client.rename_experiment(experiment, "x"),
        lambda: client.delete_experiment(experiment),
        lambda: client.delete_run("x"),
    ):
        with pytest.raises(mlflow.MlflowException):
            refused()


def test_names_tags_and_states(client: Any, experiment: str, tmp_path: Path) -> None:
    run = client.create_run(experiment, run_name="first").info.run_id
    client.set_tag(run, "mlflow.runName", "second")
    assert client.get_run(run).info.run_name == "second"
    client.update_run(run, name="third", status="FINISHED")
    shown = client.get_run(run)
    assert (shown.info.run_name, shown.data.tags["mlflow.runName"]) == ("third", "third")
    assert shown.info.status == "FINISHED"
    client.set_tag(run, "a", "b")
    client.delete_tag(run, "a")
    assert "a" not in client.get_run(run).data.tags
    with pytest.raises(mlflow.MlflowException):
        client.delete_tag(run, "a")
    client.set_terminated(run, "KILLED", end_time=77)
    shown = client.get_run(run).info
    assert (shown.status, shown.end_time) == ("KILLED", 77)
