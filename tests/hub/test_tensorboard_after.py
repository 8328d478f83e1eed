"""The logs of a session that has ended, in a TensorBoard of their own, on the real demo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import yaml
from hub_client import Person, wait_until
from jobs import living_jobs
from terminal import terminal
from test_my_sessions import ask, ended, items, launch

TENSORBOARD = "tensorboard"  # the server's name
WRITE = """
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("runs of ada/first")
for step in range(5):
    value = summary_pb2.Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(event_pb2.Event(step=step, summary=summary_pb2.Summary(value=[value])))
writer.close()
"""


@pytest.fixture(scope="module")
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada, with neither a session nor a TensorBoard before and after."""
    someone = person("ada")
    for server in ("", TENSORBOARD):
        someone.stop(server)
    yield someone
    for server in ("", TENSORBOARD):
        someone.stop(server)
    someone.api("DELETE", someone.server_path(TENSORBOARD), {"remove": True})


@pytest.fixture(scope="module")
def session(demo: Any, ada: Person) -> dict[str, Any]:
    """A session with two GPUs that wrote a curve and has ended: its item."""
    python = yaml.safe_load((demo.environments / "python-venv.yaml").read_text())["path"]
    item = launch(ada, gpus=2)
    file = {"type": "file", "format": "text", "content": WRITE}
    made = ada.session("PUT", "api/contents/write.py", json=file)
    assert made.status_code == 201, made.text
    said = terminal(ada, f"{python}/bin/python3 write.py && ls 'runs of ada/first'; rm write.py")
    assert "tfevents" in said
    refused = ask(ada, f"sessions/{item['id']}/tensorboard", "POST", json={"folders": ["~"]})
    assert refused.status_code == 409 and "has not ended" in refused.text
    ada.stop()
    return ended(ada, item["id"])


def open_logs(someone: Person, item: dict[str, Any], *folders: Any) -> httpx.Response:
    return ask(someone, f"sessions/{item['id']}/tensorboard", "POST", json={"folders": folders})


def stop_tensorboard(ada: Person) -> None:
    """Stop it, and wait until the portal knows."""
    ada.stop(TENSORBOARD)
    wait_until(
        "no TensorBoard is known to run",
        lambda: not any(one["server"] == TENSORBOARD for one in items(ada, "sessions?ended=false")),
    )


def test_the_logs_of_an_ended_session(demo: Any, ada: Person, session: dict[str, Any]) -> None:
    assert session["log_folders"] == ["~"]
    answer = open_logs(ada, session, "~/runs of ada")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"url": f"/hub/spawn-pending/ada/{TENSORBOARD}"}
    ada.wait_ready(TENSORBOARD)
    # A job of its own, small, and away from the GPUs.
    (job,) = living_jobs(demo, "ada")
    assert job.node.startswith("cpu") and "gpu" not in job.gres
    item = wait_until(
        "it is recorded as running",
        lambda: (newest := items(ada)[0])["state"] == "running" and newest,
    )
    assert item["environment_title"] == "TensorBoard in Python (virtual environment)"
    assert item["server"] == TENSORBOARD and item["links"]["open"] == f"/user/ada/{TENSORBOARD}/"
    home = item["options"]["tensorboard"][0].removesuffix("/runs of ada")
    assert home.endswith("/ada")
    assert item["options"] == {
        "gpus": 0, "nodes": 1, "cpus": 1, "memory": "4G", "time": "1:00:00", "partition": "cpu",
        "tensorboard": [f"{home}/runs of ada"],
    }  # fmt: skip
    # Its page is TensorBoard, with the run's data, behind the proxy.
    first = ada.session("GET", "", TENSORBOARD)
    assert first.headers["Location"] == f"/user/ada/{TENSORBOARD}/portal/tensorboard/"
    (board,) = ada.session("GET", "portal/tensorboard/api/running", TENSORBOARD).json()["running"]
    data = f"portal/tensorboard/{board['id']}/data/plugin/scalars/"
    tags = wait_until(
        "TensorBoard has read the run",
        lambda: (
            (found := ada.session("GET", f"{data}tags", TENSORBOARD)).status_code == 200
            and "application/json" in found.headers["Content-Type"]
            and found.json()
        ),
        timeout=120,
    )
    assert tags == {"first": {"loss": {"displayName": "", "description": ""}}}
    points = ada.session("GET", f"{data}scalars?run=first&tag=loss", TENSORBOARD).json()
    assert [step for _, step, _ in points] == [0, 1, 2, 3, 4]
    # One at a time; and it takes nobody's place.
    again = open_logs(ada, session, "~")
    assert again.status_code == 409 and "runs already" in again.json()["error"]["message"]
    assert ada.server().get("ready") is not True
    stop_tensorboard(ada)
    # Its own line offers the same folders again, and no launch without them.
    over = ended(ada, item["id"])
    assert over["log_folders"] == [f"{home}/runs of ada"]
    assert over["links"]["launch_again"] is None and over["links"]["launch_suggested"] is None


@pytest.mark.parametrize(
    ("folder", "status", "words"),
    [
        ("/etc", 403, "is not in a folder of yours"),
        ("/", 403, "is not in a folder of yours"),
        ("~/../barbara", 400, "may not contain '..'"),
        ("runs", 400, "from the root"),
        ("/a\nb", 400, "printable"),
        ("s3://bucket/runs", 400, "from the root"),
        ("<script>alert(1)</script>", 400, "from the root"),
        ("", 400, "printable"),
        (7, 400, ""),
        ("/" + "a" * 5000, 400, ""),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_hostile_folders_start_nothing(
    demo: Any, ada: Person, session: dict[str, Any], folder: Any, status: int, words: str
) -> None:
    answer = open_logs(ada, session, "~/runs of ada", folder)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]["message"]
    direct = ada.launch({"environment": "python-venv", "tensorboard": [folder]}, TENSORBOARD)
    assert direct.status_code == status, direct.text
    assert words in direct.json()["message"]
    assert living_jobs(demo, "ada") == []


@pytest.mark.parametrize("folders", [[], ["~"] * 21])
def test_none_and_too_many_folders(ada: Person, session: dict[str, Any], folders: Any) -> None:
    assert open_logs(ada, session, *folders).status_code == 400


def test_it_takes_no_gpus(demo: Any, ada: Person) -> None:
    for more in ({"gpus": 1}, {"cpus": 8}, {"memory": "64G"}, {"time": "8:00:00"}):
        options = {"environment": "python-venv", "tensorboard": ["~"], **more}
        answer = ada.launch(options, TENSORBOARD)
        assert answer.status_code == 403, answer.text
        assert "allows at most" in answer.json()["message"]
    assert living_jobs(demo, "ada") == []


def test_it_is_for_the_owner_alone(
    ada: Person, person: Callable[[str], Person], session: dict[str, Any]
) -> None:
    answer = open_logs(person("barbara"), session, "~")
    assert answer.status_code == 404
    grace = person("grace")
    assert ask(grace, f"sessions/{session['id']}").json()["log_folders"] is None
    answer = open_logs(grace, session, "~")
    assert answer.status_code == 403 and "only its owner" in answer.json()["error"]["message"]
    # A page elsewhere cannot start one with the cookie alone.
    path = f"/services/portal/api/v1/sessions/{session['id']}/tensorboard"
    assert ada.http.get("/services/portal/sessions").status_code == 200
    assert ada.http.post(path, json={"folders": ["~"]}).status_code == 403
