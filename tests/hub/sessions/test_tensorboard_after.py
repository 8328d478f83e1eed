"""The logs of a session that has ended, in a TensorBoard of their own, on the real demo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import yaml
from api_client import Caller, error_of
from hub_client import Person, wait_until
from jobs import living_jobs
from terminal import terminal

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
def caller(demo: Any) -> Iterator[Caller]:
    """Ada at the service's API, with neither a session nor a TensorBoard before and after."""
    with Caller(demo.url, "ada") as ada:
        for server in ("", TENSORBOARD):
            ada.person.stop(server)
        yield ada
        for server in ("", TENSORBOARD):
            ada.person.stop(server)
        ada.person.api("DELETE", ada.person.server_path(TENSORBOARD), {"remove": True})


@pytest.fixture
def ada(caller: Caller) -> Iterator[Person]:
    yield caller.person
    caller.person.stop(TENSORBOARD)


def newest(caller: Caller, state: str) -> dict[str, Any]:
    """The newest session, once the portal has it in this state."""

    def look() -> Any:
        answer = caller.get("sessions", params={"limit": 1})
        assert answer.status_code == 200, answer.text
        return [one for one in answer.json()["items"] if one["state"] == state]

    return dict(wait_until(f"the newest session is {state}", look, 90)[0])


def open_logs(caller: Caller, item: dict[str, Any], *folders: Any) -> httpx.Response:
    return caller.post(f"sessions/{item['id']}/tensorboard", json={"folders": folders})


@pytest.fixture(scope="module")
def session(demo: Any, caller: Caller) -> dict[str, Any]:
    """A session with two GPUs that wrote a curve and has ended: its item."""
    ada = caller.person
    python = yaml.safe_load((demo.environments / "python-venv.yaml").read_text())["path"]
    answer = ada.launch({"environment": "python-venv", "gpus": 2})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    item = newest(caller, "running")
    file = {"type": "file", "format": "text", "content": WRITE}
    made = ada.session("PUT", "api/contents/write.py", json=file)
    assert made.status_code in (200, 201), made.text
    write = f"{python}/bin/python3 write.py && ls 'runs of ada/first'; rm write.py"
    said = terminal(ada, f"rm -rf 'runs of ada'; {write}")
    assert "tfevents" in said
    refused = open_logs(caller, item, "~")
    assert refused.status_code == 409 and "has not ended" in error_of(refused)["message"]
    ada.stop()
    over = newest(caller, "ended")
    assert over["id"] == item["id"]
    return over


def test_the_logs_of_an_ended_session(
    demo: Any, caller: Caller, ada: Person, session: dict[str, Any]
) -> None:
    assert session["log_folders"] == ["~"]
    answer = open_logs(caller, session, "~/runs of ada")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"url": f"/hub/spawn-pending/ada/{TENSORBOARD}"}
    ada.wait_ready(TENSORBOARD)
    # A job of its own, small, and away from the GPUs.
    (job,) = living_jobs(demo, "ada")
    assert job.node.startswith("cpu") and "gpu" not in job.gres
    item = newest(caller, "running")
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
    assert first.headers["Location"].startswith(f"/user/ada/{TENSORBOARD}/portal/tensorboard/")
    (board,) = ada.session("GET", "portal/tensorboard/api/running", TENSORBOARD).json()["running"]
    data = f"portal/tensorboard/{board['number']}/data/plugin/scalars/"
    tags = wait_until(
        "TensorBoard has read the run",
        lambda: (
            (found := ada.session("GET", f"{data}tags", TENSORBOARD)).status_code == 200
            and "application/json" in found.headers["Content-Type"]
            and found.json()
        ),
        timeout=120,
    )
    assert tags == {"first": {"loss": {"displayName": "loss", "description": ""}}}
    points = ada.session("GET", f"{data}scalars?run=first&tag=loss", TENSORBOARD).json()
    assert [step for _, step, _ in points] == [0, 1, 2, 3, 4]
    # One at a time; and it takes nobody's place.
    again = open_logs(caller, session, "~")
    assert again.status_code == 409 and "It is already running" in error_of(again)["message"]
    assert ada.server().get("ready") is not True
    ada.stop(TENSORBOARD)
    # Its own line offers the same folders again, and no launch without them.
    over = newest(caller, "ended")
    assert over["id"] == item["id"] and over["log_folders"] == [f"{home}/runs of ada"]
    assert over["links"]["launch_again"] is None and over["links"]["launch_suggested"] is None


@pytest.mark.parametrize(
    ("folder", "status", "words"),
    [
        ("/etc", 403, "is not in one of your folders"),
        ("/", 403, "is not in one of your folders"),
        ("~/../barbara", 400, "may not contain '..'"),
        ("runs", 400, "an absolute path"),
        ("/a\nb", 400, "printable"),
        ("s3://bucket/runs", 400, "an absolute path"),
        ("<script>alert(1)</script>", 400, "an absolute path"),
        ("", 400, "printable"),
        (7, 400, ""),
        ("/" + "a" * 5000, 400, ""),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_hostile_folders_start_nothing(
    demo: Any, caller: Caller, session: dict[str, Any], folder: Any, status: int, words: str
) -> None:
    answer = open_logs(caller, session, "~/runs of ada", folder)
    assert answer.status_code == status, answer.text
    assert words in error_of(answer)["message"]
    direct = caller.person.launch(
        {"environment": "python-venv", "tensorboard": [folder]}, TENSORBOARD
    )
    assert direct.status_code == status, direct.text
    assert words in direct.json()["message"]
    assert living_jobs(demo, "ada") == []


@pytest.mark.parametrize("folders", [[], ["~"] * 21])
def test_none_and_too_many_folders(caller: Caller, session: dict[str, Any], folders: Any) -> None:
    assert open_logs(caller, session, *folders).status_code == 400


def test_it_takes_no_gpus(demo: Any, ada: Person) -> None:
    for more in ({"gpus": 1}, {"cpus": 8}, {"memory": "64G"}, {"time": "8:00:00"}):
        options = {"environment": "python-venv", "tensorboard": ["~"], **more}
        answer = ada.launch(options, TENSORBOARD)
        assert answer.status_code == 403, answer.text
        assert "at most" in answer.json()["message"]
    assert living_jobs(demo, "ada") == []


def test_it_is_for_the_owner_alone(
    demo: Any, ada: Person, person: Callable[[str], Person], session: dict[str, Any]
) -> None:
    with Caller(demo.url, "barbara") as barbara:
        assert open_logs(barbara, session, "~").status_code == 404
    with Caller(demo.url, "grace") as grace:
        assert grace.get(f"sessions/{session['id']}").json()["log_folders"] is None
        answer = open_logs(grace, session, "~")
        assert answer.status_code == 403 and "only its owner" in error_of(answer)["message"]
    # A page elsewhere cannot start one with the cookie alone.
    with_cookie = person("ada").http
    assert with_cookie.get("/services/portal/sessions").status_code == 200
    path = f"/services/portal/api/v1/sessions/{session['id']}/tensorboard"
    assert with_cookie.post(path, json={"folders": ["~"]}).status_code == 403
    assert living_jobs(demo, "ada") == []
