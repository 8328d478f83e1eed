"""What a session on the demo listens on, tried by another account of its node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import nothing_left
from listening import as_account, listening_sockets, reached
from notebook_kernel import NotebookKernel

FOLDER = re.compile(r"/tmp/(?:[^/]+/)?portal-k-[^/]+")
DEBUGGED = "import debugpy; print(debugpy.listen(('127.0.0.1', 0))[1])"


@pytest.fixture
def kernels(ada: Person) -> Iterator[dict[str, NotebookKernel]]:
    """Kernels of the session, by name."""
    ada.launch({"environment": "jupyterlab", "gpus": 0, "time": "1:00:00"})
    ada.wait_ready()
    kernels = {name: NotebookKernel.start(ada, name) for name in ("python3", "bash")}
    yield kernels
    for kernel in kernels.values():
        kernel.leave()


def test_nothing_of_a_session_answers_another_account(
    demo: Any, ada: Person, kernels: dict[str, NotebookKernel]
) -> None:
    """In a container: a debugger, a warm kernel of ``%%gpu``, its relay, Bash, a TensorBoard."""
    if not demo.people:
        pytest.skip("the one-account form has no other account")
    python = kernels["python3"]
    assert kernels["bash"].run("echo $((6 * 7))").printed == "42\n"
    port = python.run(DEBUGGED)
    assert port.status == "ok", port.error
    ran = python.run("%%gpu t4 --time 30\n6 * 7")
    assert (ran.status, ran.error) == ("ok", "")
    started = ada.session("POST", "portal/tensorboard/api/running", json={"folders": ["."]})
    assert started.status_code == 201, started.text
    board = f"portal/tensorboard/api/running/{started.json()['number']}"
    wait_until(
        "TensorBoard reads", lambda: ada.session("GET", board).json()["state"] in ("ready", "ended")
    )
    home = demo.run(["sh", "-c", "echo ~ada"]).stdout.strip()
    sockets = listening_sockets(as_account(demo, "ada"), home)
    assert int(port.printed) in {at[1] for kind, at in sockets if kind != "unix"}
    assert len(sockets) > 20, "those of four kernels and of TensorBoard, and the session's page"
    assert not [at for _, at in sockets if str(at).startswith("\0")], "abstract sockets"
    assert reached(as_account(demo, "barbara"), sockets) == {}
    # Other sessions of the account, of another demo too, have such folders in the same /tmp.
    own = {found[0] for _, at in sockets if (found := FOLDER.match(str(at)))}
    assert own, "folders of job kernels"
    assert python.run("%gpu stop").status == "ok"
    ada.stop()
    nothing_left(demo, "ada")
    assert [at for at in own if demo.run(["test", "-e", at], check=False).returncode == 0] == []
