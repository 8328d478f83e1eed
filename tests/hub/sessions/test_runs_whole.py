"""A run on the real demo, from portal-run in a terminal to the notebooks of its points."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from terminal import terminal

CELLS = [
    ("rate = 0.1\nname = 'usual'", ["parameters"]),
    ("from portal_metrics import log\nimport os\nlog(loss=1 / rate)\nprint(os.getcwd(), name)", []),
    ("import time\nassert rate < 3, 'the rate is too high'\ntime.sleep(rate)", []),
]


@pytest.fixture(scope="module", params=["python-venv", "jupyterlab"])
def ada(demo: Any, person: Callable[[str], Person], request: Any) -> Iterator[Person]:
    """Ada in a session: in a virtual environment, and in a container."""
    nothing_left(demo, "ada")
    options = {"environment": request.param, "gpus": 0, "time": "1:00:00"}
    yield from with_session(person("ada"), options)
    nothing_left(demo, "ada")


@pytest.fixture
def unused() -> str:
    """Ending of names of runs that the sessions before have not used."""
    return f"x{time.time_ns() % 10**9}"


def _upload(ada: Person, folder: str) -> None:
    cells = [
        {
            "cell_type": "code",
            "source": text,
            "metadata": {"tags": tags},
            "outputs": [],
            "execution_count": None,
        }
        for text, tags in CELLS
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    made = terminal(ada, f"rm -rf {folder}; mkdir {folder}; readlink -f {folder}")
    assert made.strip().endswith(folder), made
    model = {"type": "notebook", "format": "json", "content": notebook}
    assert ada.session("PUT", f"api/contents/{folder}/train.ipynb", json=model).is_success


def test_a_run_from_a_terminal_to_its_notebooks(ada: Person) -> None:
    _upload(ada, "whole")
    said = wait_until(
        "the portal knows the session",
        lambda: (
            text
            if "Results:"
            in (
                text := terminal(
                    ada,
                    "portal-run whole/train.ipynb --cpus 1 "
                    "--memory 512M --set rate=1,2,4 --set name=it\\'s --at-once 2 --keep-failed",
                )
            )
            else None
        ),
    )
    assert "Run 'train': 3 points, at most 2 at once." in said, said
    with Caller(ada.url, "ada") as caller:
        _look_into_kept_kernel(caller, "train", point=2)
    wait_until(
        "the run has ended",
        lambda: "ended" in terminal(ada, "portal-run list | grep '^train' | head -1"),
        timeout=120,
        every=3,
    )
    shown = terminal(ada, "portal-run show train")
    assert "2 succeeded, 1 failed" in shown, shown
    failed = "AssertionError: the rate is too high (cell 4 of 4). Its kernel is kept until"
    assert failed in shown, shown
    assert "loss=0.25" in shown and 'rate=4.0 name="it\'s"' in shown
    manifest = json.loads(terminal(ada, "cat whole/runs/train/0002/manifest.json"))
    assert manifest["exit"] == 1 and manifest["slurm"]["job"].endswith("_2")
    packages = manifest["python"].get("packages", ())
    assert any(name.startswith("ipykernel==") for name in packages), manifest["python"]
    text = terminal(ada, "cat whole/runs/train/0000/output.ipynb")
    printed = "".join(
        "".join(output.get("text", ""))
        for cell in json.loads(text)["cells"]
        for output in cell["outputs"]
    )
    assert printed.endswith("/whole it's\n")


def _look_into_kept_kernel(caller: Caller, name: str, point: int) -> None:
    """Wait until the point of the newest run of this name has failed, ask its kernel for variables,
    and end it."""
    run = next(run for run in caller.get("runs").json()["items"] if run["name"] == name)
    path = f"runs/{run['id']}/points/{point}"

    def kernel() -> Any:
        return caller.get(f"{path}/output").json()["kernel"]

    wait_until("its kernel is kept", kernel, timeout=120)
    answer = caller.post(f"{path}/kernel", json={"code": "rate, name"})
    assert answer.status_code == 202, answer.text

    def text() -> Any:
        found = kernel()
        return found and found["asked"][-1]["text"]

    assert wait_until("it has answered", text, every=1) == '(4.0, "it\'s")'
    assert caller.delete(f"{path}/kernel").status_code == 200


def test_a_run_that_is_stopped_keeps_its_notebooks(ada: Person) -> None:
    _upload(ada, "stopped")
    script = "print('on', flush=True)\nimport time\ntime.sleep(600)\n"
    model = {"type": "file", "format": "text", "content": script}
    assert ada.session("PUT", "api/contents/stopped/slow.py", json=model).is_success
    said = terminal(ada, "portal-run stopped/slow.py --cpus 1 --memory 512M")
    assert "Run 'slow': 1 point" in said, said
    log = "stopped/runs/slow/0000/output.log"
    wait_until("it runs", lambda: "on" in terminal(ada, f"cat {log}"), every=3)
    assert "is being stopped" in terminal(ada, "portal-run stop slow")
    wait_until(
        "it has ended",
        lambda: "ended" in terminal(ada, "portal-run list | grep slow"),
        timeout=120,
        every=3,
    )
    manifest = json.loads(terminal(ada, "cat stopped/runs/slow/0000/manifest.json"))
    assert (manifest["exit"], manifest["message"]) == (143, "The point was stopped")
    assert "1 failed" in terminal(ada, "portal-run show slow")


def test_a_refusal_is_said_in_the_terminal(ada: Person) -> None:
    _upload(ada, "refused")
    said = terminal(ada, "portal-run refused/train.ipynb --gpus 4000; ls refused")
    assert said.startswith("portal-run: ") and "Traceback" not in said, said
    assert said.splitlines()[-1] == "train.ipynb"


FLAKY = """
import os, sys
n = os.environ["PORTAL_RUN_POINT"]
open("ran-" + n, "a").write("x")
sys.exit(0 if n == "0" or os.path.exists("fixed") else 3)
"""


def test_what_failed_runs_again_and_all_is_repeated(ada: Person, unused: str) -> None:
    flaky = f"flaky{unused}"
    _upload(ada, "repeated")
    model = {"type": "file", "format": "text", "content": FLAKY}
    assert ada.session("PUT", f"api/contents/repeated/{flaky}.py", json=model).is_success

    def shows(name: str, words: str) -> None:
        wait_until(
            f"{name}: {words}",
            lambda: (
                "ended" in terminal(ada, f"portal-run list | grep '^{name} '")
                and words in terminal(ada, f"portal-run show {name}")
            ),
            timeout=240,
            every=3,
        )

    said = terminal(ada, f"portal-run repeated/{flaky}.py --cpus 1 --memory 512M --set n=1,2")
    assert f"Run '{flaky}': 2 points" in said, said
    shows(flaky, "1 succeeded, 1 failed")
    terminal(ada, "touch repeated/fixed")
    said = terminal(ada, f"portal-run again {flaky} --memory 600M")
    assert "run again" in said, said
    shows(flaky, "2 succeeded")
    assert terminal(ada, "cat repeated/ran-0; echo; cat repeated/ran-1").split() == ["x", "xx"]
    said = terminal(ada, f"portal-run again {flaky}")
    assert "All points of this run have succeeded." in said, said
    said = terminal(ada, f"portal-run repeat {flaky}")
    assert f"Run '{flaky}-2' repeats '{flaky}'." in said, said
    shows(f"{flaky}-2", "2 succeeded")
    manifest = json.loads(terminal(ada, f"cat repeated/runs/{flaky}-2/0001/manifest.json"))
    assert manifest["state"] == "succeeded" and manifest["parameters"] == {"n": 2}
    assert all(text.startswith("The node is ") for text in manifest["drift"]), manifest["drift"]


def test_a_colleague_repeats_a_run(ada: Person, unused: str) -> None:
    where = f"where{unused}"
    _upload(ada, "lent")
    model = {"type": "file", "format": "text", "content": "import os; print(os.getcwd())"}
    assert ada.session("PUT", f"api/contents/lent/{where}.py", json=model).is_success
    said = terminal(ada, f"chmod 700 lent; portal-run lent/{where}.py --cpus 1 --memory 512M")
    assert f"Run '{where}': 1 point" in said, said
    with Caller(ada.url, "ada") as own, Caller(ada.url, "barbara") as barbara:

        def ended(caller: Caller, id_: str) -> dict[str, Any]:
            def look() -> Any:
                answer = caller.get(f"runs/{id_}")
                # The proxy's page is HTML: a busy service may not answer in time.
                html = not answer.headers["content-type"].startswith("application/json")
                return None if html or answer.json()["state"] != "ended" else answer.json()

            return dict(wait_until("it has ended", look, timeout=240, every=3))

        (run,) = [run for run in own.get("runs").json()["items"] if run["name"] == where]
        assert ended(own, run["id"])["counts"]["succeeded"] == 1
        again = f"runs/{run['id']}/repetitions?owner=ada"
        assert barbara.post(again).status_code == 404
        assert own.post(f"runs/{run['id']}/shares", json={"user": "barbara"}).status_code == 200
        answer = barbara.post(again)
        assert answer.status_code == 202, answer.text
        new = ended(barbara, answer.json()["id"])
        assert (new["user"], new["name"], new["counts"]["failed"]) == ("barbara", f"{where}-2", 1)
        assert new["folder"].endswith(f"/runs/{where}-2") and not new["folder"].startswith("~")
        (point,) = barbara.get(f"runs/{new['id']}/points").json()["items"]
        assert "Permission denied. Ask ada to let you read it" in point["message"], point
        terminal(ada, "stat -c %a . > lent/mode; chmod a+x .; chmod -R a+rX lent")
        assert barbara.post(f"runs/{new['id']}/again", json={}).status_code == 202
        assert ended(barbara, new["id"])["counts"]["succeeded"] == 1
    terminal(ada, "chmod $(cat lent/mode) .")


TUNED = """
import json, os, urllib.request
values = json.loads(os.environ["PORTAL_PARAMETERS"])
server = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/"
headers = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
def call(path, **body):
    request = urllib.request.Request(server + path, json.dumps(body).encode(), headers)
    return json.loads(urllib.request.urlopen(request, timeout=60).read())
run = call("create", experiment_id="0")["run"]["info"]["run_id"]
call("log-metric", run_id=run, key="distance", value=values["x"] ** 2, step=1)
"""


def test_a_search_whose_points_log_as_mlflow_does(ada: Person) -> None:
    _upload(ada, "tuned")
    model = {"type": "file", "format": "text", "content": TUNED}
    assert ada.session("PUT", "api/contents/tuned/tune.py", json=model).is_success
    said = terminal(
        ada,
        "portal-run tuned/tune.py --search 'x=uniform(-1,1)' --search 'kind=[a,b]' --trials 3 "
        "--minimize distance --cpus 1 --memory 512M",
    )
    assert "Run 'tune': 3 points" in said, said
    wait_until(
        "it has ended",
        lambda: "ended" in terminal(ada, "portal-run list | grep '^tune' | head -1"),
        timeout=300,
        every=3,
    )
    shown = terminal(ada, "portal-run show tune")
    assert "3 succeeded" in shown and "Search: minimize distance" in shown, shown
    best = min(
        json.loads(terminal(ada, f"cat tuned/runs/tune/000{n}/manifest.json"))["parameters"]["x"]
        ** 2
        for n in range(3)
    )
    assert f", distance={best:.6g}, x=" in shown, shown
