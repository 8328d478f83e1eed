"""Ranks of a script on two nodes of the demo, from portal-run in a session to the run's page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from notebook_kernel import NotebookKernel
from terminal import terminal

TOGETHER = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(address) as server:
        nodes = {server.accept()[0].makefile().readline().strip() for _ in range(size - 1)}
    print(size, *sorted({*nodes, os.environ["SLURMD_NODENAME"]}))
else:
    for _ in range(200):
        try:
            with socket.create_connection(address) as own:
                own.sendall((os.environ["SLURMD_NODENAME"] + "\\n").encode())
            break
        except OSError:
            time.sleep(0.1)
"""
FAILING = """
import os, time
if os.environ["RANK"] == "3":
    raise ValueError("no data for rank 3")
time.sleep(60)
"""
TRAINED = """
import os
from portal_train import train
factor = 10
def fit(x):
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
    if x == 3 and os.environ["RANK"] == "3":
        raise ValueError("no data for rank 3")
    return x * factor, os.environ["SLURMD_NODENAME"]
asked = dict(nodes=2, ranks=2, cpus=2, gpus=0, memory="512M", partition="cpu", time="0:10:00")
print(train(fit, 2, **asked))
"""
ASKED = "--partition cpu --gpus 0 --nodes 2 --ranks 2 --cpus 2 --memory 512M"


@pytest.fixture(scope="module")
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada in a session in a container; ranks in a virtual environment are those of
    tests/integration/runs/test_run_ranks.py."""
    nothing_left(demo, "ada")
    options = {"environment": "jupyterlab", "gpus": 0, "time": "1:00:00"}
    yield from with_session(person("ada"), options)
    nothing_left(demo, "ada")


def begin(ada: Person, name: str, text: str, asked: str = ASKED) -> str:
    """Start a run of this script; return what portal-run says."""
    terminal(ada, "rm -rf ranks; mkdir ranks")
    model = {"type": "file", "format": "text", "content": text}
    assert ada.session("PUT", f"api/contents/ranks/{name}.py", json=model).is_success
    return wait_until(
        "the portal knows the session",
        lambda: (
            said
            if "Traceback" not in (said := terminal(ada, f"portal-run ranks/{name}.py {asked}"))
            and "does not know" not in said
            else None
        ),
    )


def point_of(ada: Person, name: str) -> dict[str, Any]:
    """Wait until the point of the newest run of this name has ended; return it, as its page has
    it."""
    with Caller(ada.url, "ada") as caller:
        run = next(run for run in caller.items("runs") if run["name"] == name)

        def ended() -> Any:
            points = caller.get(f"runs/{run['id']}/points").json()["items"]
            return points if points and points[0]["state"] in ("succeeded", "failed") else None

        return dict(wait_until("the point has ended", ended, timeout=120)[0])


def test_ranks_meet_on_two_nodes(ada: Person) -> None:
    said = begin(ada, "together", TOGETHER)
    assert "Run 'together': 1 point" in said, said
    point = point_of(ada, "together")
    log = terminal(ada, "cat ranks/runs/together/0000/output.log")
    assert point["state"] == "succeeded", (point, log)
    assert log.split() == ["4", "cpu01", "cpu02"]


def test_the_page_has_the_error_of_the_first_rank(ada: Person) -> None:
    assert "Run 'failing" in begin(ada, "failing", FAILING)
    point = point_of(ada, "failing")
    assert (point["state"], point["message"]) == (
        "failed",
        "Rank 3 on cpu02: ValueError: no data for rank 3 (exit code 1)",
    )
    log = terminal(ada, "cat ranks/runs/failing/0000/output.log")
    assert "Rank 3 failed first" in log and "Traceback (most recent call last)" in log
    manifest = json.loads(terminal(ada, "cat ranks/runs/failing/0000/manifest.json"))
    assert manifest["state"] == "failed"


def test_a_function_of_a_cell_is_called_in_all_ranks(ada: Person) -> None:
    kernel = NotebookKernel.start(ada)
    try:
        ran = kernel.run("import importlib.util as u; print(u.find_spec('cloudpickle') is None)")
        if ran.printed == "True\n":
            ran = kernel.run(TRAINED)
            assert "with %pip install cloudpickle, and restart the kernel." in ran.error
            assert kernel.run("%pip install -q cloudpickle", 300).status == "ok"
            kernel.shut_down()  # its Python has not looked for a folder that was not there
            kernel = NotebookKernel.start(ada)
        ran = kernel.run(TRAINED, 180)
        assert ran.printed == "rank 0 of 4\n(20, 'cpu01')\n", ran
        ran = kernel.run("train(fit, 3, **asked)", 180)
        assert ran.error == "no data for rank 3", ran
        runs = terminal(ada, "ls ~/.portal/train/runs").split()
        assert "fit" in runs and len(runs) > 1
    finally:
        kernel.shut_down()


def test_more_nodes_than_there_are_are_refused(ada: Person) -> None:
    said = begin(ada, "many", TOGETHER, ASKED.replace("--nodes 2", "--nodes 50"))
    assert "portal-run:" in said and "nodes" in said, said


def test_a_notebook_has_no_ranks(ada: Person) -> None:
    said = terminal(ada, "echo '{}' > n.ipynb; portal-run n.ipynb --ranks 2")
    assert "portal-run:" in said, said
