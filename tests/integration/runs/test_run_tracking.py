"""Metrics of points by TensorBoard's writer and MLflow's client, which write as in anybody's
program; what arrives is in the reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from machine import patience
from run_site import PlayedService, RunSite, printed, wait_until

pytest.importorskip("tensorboard")
PATIENCE = patience(240)  # seconds: TensorBoard is imported twice, once with a low priority
WRITER = """
import os, sys
from tensorboard.summary import Writer
writer = Writer(FOLDER)
for step in range(3):
    writer.add_scalar('loss', 1 / (step + 1), step)
writer.add_scalar('bad', float('nan'), 2)
writer.close()
"""
TRACKED = """
import mlflow
mlflow.set_experiment('digits')
with mlflow.start_run(run_name='first'):
    mlflow.log_params({'lr': 0.1, 'name': 'a'})
    for step in range(3):
        mlflow.log_metric('loss', 1 / (step + 1), step=step)
    mlflow.log_metrics({'accuracy': 0.5, 'bad': float('nan')}, step=2)
    mlflow.set_tag('stage', 'test')
    mlflow.log_text('hello', 'note.txt')
    model = mlflow.initialize_logged_model(name='net', params={'layers': '3'})
    mlflow.finalize_logged_model(model.model_id, 'READY')
    run = mlflow.active_run()
found = mlflow.MlflowClient().get_run(run.info.run_id)
print(found.data.params, found.data.metrics['loss'], found.info.status)
"""


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_scalars_in_the_point_s_folder(site: RunSite, service: PlayedService) -> None:
    source = site.notebook(
        WRITER.replace("FOLDER", "os.environ['PORTAL_LOGS'] + '/validation'"),
        "assert os.environ['TENSORBOARD_LOGGING_DIR'] == os.environ['PORTAL_LOGS']",
    )
    plan = site.plan(source)
    process = site.begin(plan)
    said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "")
    assert service.last(0)["metrics"] == {"validation/loss": pytest.approx(1 / 3), "step": 2.0}
    assert [line["step"] for line in lines(plan.folder / "0000/metrics.jsonl")] == [0, 1, 2]


# As add_scalars of PyTorch writes them (torch/utils/tensorboard/writer.py): a folder for each name.
SCALARS = """
import os
from tensorboard.summary import Writer
for number in range(130):
    writer = Writer(f"{os.environ['PORTAL_LOGS']}/loss_{number}")
    writer.add_scalar('loss', number, 0)
    writer.close()
writer = Writer(os.environ['PORTAL_LOGS'])
for step in range(1000):
    writer.add_scalar('rate', step, step)
    if step == 501:
        writer.add_scalar('accuracy', 0.5, step)
writer.close()
"""


def test_scalars_of_many_names_are_all_read(site: RunSite, service: PlayedService) -> None:
    plan = site.plan(site.script(SCALARS))
    process = site.begin(plan)
    said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "")
    values: dict[str, object] = {}
    for line in lines(plan.folder / "0000/metrics.jsonl"):
        values.update(line)
    assert {name: values[name] for name in ("accuracy", "rate")} == {"accuracy": 0.5, "rate": 999.0}
    assert {name: value for name, value in values.items() if name.startswith("loss")} == {
        f"loss/{number}": float(number) for number in range(130)
    }


def test_files_that_are_not_read_are_said(site: RunSite, service: PlayedService) -> None:
    text = "import os, pathlib\nlogs = pathlib.Path(os.environ['PORTAL_LOGS'])\nlogs.mkdir()\n"
    text += "for number in range(501):\n    (logs / f'events.out.tfevents.{number}').touch()\n"
    process = site.begin(site.plan(site.script(text)))
    said, _ = process.communicate(timeout=PATIENCE)
    report = service.last(0)
    assert report["state"] == "succeeded", said
    assert report["message"].startswith("Metrics are missing: of TensorBoard's event files")


def test_scalars_in_a_usual_folder_are_seen_while_the_point_runs(
    site: RunSite, service: PlayedService
) -> None:
    """Those that another process writes into the same folder are not the point's."""
    text = WRITER.replace("FOLDER", "sys.argv[1]")
    go_on = "import pathlib, time\nwhile not pathlib.Path('end').exists():\n    time.sleep(0.1)\n"
    source = site.script(text.replace("sys.argv[1]", "'logs/fit'") + go_on)
    process = site.begin(site.plan(source))
    theirs = text.replace("'loss'", "'theirs'")
    subprocess.run([sys.executable, "-c", theirs, site.work / "logs/fit"], check=True)

    def metrics() -> dict[str, float]:
        return service.last(0)["metrics"] if service.of_point(0) else {}

    wait_until(metrics, PATIENCE)
    (site.work / "end").touch()
    assert process.wait(PATIENCE) == 0
    assert service.last(0)["metrics"] == {"loss": pytest.approx(1 / 3), "step": 2.0}


def test_mlflow_s_client(site: RunSite, service: PlayedService) -> None:
    pytest.importorskip("mlflow")
    plan = site.plan(site.notebook(TRACKED))
    # A proxy of the site cannot reach this node's loopback.
    proxy = "http://127.0.0.1:9"
    process = site.begin(plan, http_proxy=proxy, HTTP_PROXY=proxy)
    said, _ = process.communicate(timeout=PATIENCE)
    folder = plan.folder / "0000"
    assert (process.returncode, said) == (0, "")
    assert "{'lr': '0.1', 'name': 'a'} 0.333" in printed(folder) and "FINISHED" in printed(folder)
    assert "127.0.0.1" not in printed(folder)
    metrics = {"loss": pytest.approx(1 / 3), "accuracy": 0.5, "step": 2.0}
    assert service.last(0)["metrics"] == metrics
    assert [line["loss"] for line in lines(folder / "metrics.jsonl")[:2]] == [1.0, 0.5]
    told = lines(folder / "mlflow.jsonl")
    assert (told[0]["name"], told[0]["experiment"]) == ("first", "digits")
    assert {"lr": "0.1", "name": "a"} in [line.get("params") for line in told]
    assert {"stage": "test"} in [line.get("tags") for line in told]
    (note,) = folder.glob("mlflow-artifacts/*/note.txt")
    assert note.read_text() == "hello"


def test_another_server_of_mlflow_is_left_alone(site: RunSite) -> None:
    source = site.script("import os\nprint(os.environ['MLFLOW_TRACKING_URI'], end='')\n")
    plan = site.plan(source)
    assert site.execute(plan, MLFLOW_TRACKING_URI="http://mlflow.example.org")[0] == 0
    assert (plan.folder / "0000/output.log").read_text() == "http://mlflow.example.org"
