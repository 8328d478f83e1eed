"""TensorBoard in a session on the real demo: behind the proxy, out of other people's reach."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hub_client import Person, wait_until
from terminal import terminal

WRITE = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("curves/run")
writer.add_event(Event(summary=Summary(value=[Summary.Value(tag="loss", simple_value=1)])))
writer.close()
"""
TRY = """
import os, socket, sys
for place in sys.argv[1:]:
    for what in (
        lambda: os.listdir(place),
        lambda: socket.socket(socket.AF_UNIX).connect(place + "/socket"),
    ):
        try:
            what()
            print("reached")
        except PermissionError:
            print("refused")
"""


@pytest.mark.parametrize("environment", ["python-venv", "jupyterlab"])
def test_a_curve_is_seen_by_its_owner_alone(
    demo: Any, ada: Person, barbara: Person, environment: str
) -> None:
    ada.launch({"environment": environment})
    ada.wait_ready()
    model = {"type": "file", "format": "text", "content": WRITE}
    assert ada.session("PUT", "api/contents/write.py", json=model).is_success
    # The environment's own Python: a login shell may find another one.
    written = terminal(
        ada,
        "rm -rf curves; $(head -1 $TENSORBOARD_BINARY | cut -c3-) write.py; "
        "readlink -f curves; ls curves",
    )
    assert written.split()[-1] == "run", written
    folder = written.split()[-2]
    started = ada.session("POST", "portal/tensorboard/api/running", json={"folders": ["curves"]})
    assert started.status_code == 201, started.text
    board = started.json()
    assert board["folders"] == [folder]
    path = f"portal/tensorboard/{board['number']}/"
    assert board["url"] == f"/user/ada/{path}"

    def state() -> dict[str, Any]:
        return ada.session("GET", f"portal/tensorboard/api/running/{board['number']}").json()

    ready = wait_until("TensorBoard reads", lambda: state()["state"] in ("ready", "ended"))
    assert ready and state()["state"] == "ready", state()
    assert ada.session("GET", f"{path}data/runs").json() == ["run"]
    assert "tb-relative-root" in ada.session("GET", path).text
    # Another person on the site, with a token of their own.
    barbara.api("GET", "/user")
    for rest in ("", "data/runs"):
        answer = barbara.http.get(f"{ada.session_url()}{path}{rest}", follow_redirects=False)
        assert answer.status_code in (302, 403, 404)
    refused = ada.session("POST", "portal/tensorboard/api/running", json={"folders": ["/etc"]})
    assert refused.status_code == 400 and "/etc is outside" in refused.json()["message"]
    if demo.people:
        # Another person on the same node: the demo's nodes are one machine with one /tmp.
        place = terminal(ada, f"echo $PORTAL_TENSORBOARD_DIRECTORY/{board['number']}").strip()
        tries = ["/usr/bin/python3", "-c", TRY, place]
        own = demo.run(tries, user=demo.user("ada")).stdout.split()
        assert own == ["reached", "reached"]
        other = demo.run(tries, user=demo.user("barbara")).stdout.split()
        assert other == ["refused", "refused"]
    ada.stop()
    if demo.people:
        wait_until(
            "nothing is left",
            lambda: demo.run(["ls", place], user=demo.user("ada"), check=False).returncode != 0,
        )


def test_a_site_says_what_may_be_shown_and_used(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    seen = terminal(ada, "echo $PORTAL_TENSORBOARD_MEMORY; echo $PORTAL_TENSORBOARD_ROOTS")
    memory, roots = seen.splitlines()[:2]
    assert 64 <= int(memory) <= 4096
    assert isinstance(json.loads(roots), list)
