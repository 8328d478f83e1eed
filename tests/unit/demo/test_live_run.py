"""The demo's run that goes on: what is asked for, and what is left when it is not started."""

from __future__ import annotations

import runpy
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.demo import live_run
from portal.demo.home import Home
from portal.demo.part import DemoPart
from portal.demo.people import People
from portal.demo.service_api import ServiceApi
from portal.demo.showcase import showcase
from portal.demo.showcase.showcase import Showcase
from portal.errors import PortalError, Unavailable
from portal.models.session.resources import time_seconds
from portal.paths import data_path

DEPLOY = data_path("deploy")
PEOPLE = People.read(DEPLOY / "demo/people.toml")
SCRIPT = DEPLOY / "demo/showcase/two_moons.py"
SERVER = "users/grace/servers/examples"


class Portal:
    """The Hub, the session and the service: ``servers`` are the Hub's answers, one for each look;
    ``refusal``: of the run."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: dict[str, Any] = {}
        self.servers: list[dict[str, Any]] = [
            {"examples": {"ready": False}},
            {"examples": {"ready": True}},
        ]
        self.refusal: PortalError | None = None

    def answer(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append((method, path))
        if method != "DELETE":
            self.bodies[path] = body
        if path == "users/grace":
            return {"servers": self.servers.pop(0) if self.servers else {"examples": {"ready": 0}}}
        if path == "run-form":
            return {"sessions": [{"id": "s1", "server": ""}, {"id": "s2", "server": "examples"}]}
        if path.endswith("/start") and self.refusal:
            raise self.refusal
        return {}


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Portal:
    portal = Portal()
    monkeypatch.setattr(
        ServiceApi, "_ask", lambda _, method, path, body=None: portal.answer(method, path, body)
    )
    monkeypatch.setattr(live_run, "token_of", lambda *_: {"id": "t1", "token": "secret"})
    monkeypatch.setattr(live_run, "_PAUSE", 0.0)
    return portal


def start(over: threading.Event | None = None) -> None:
    live_run.start_run("http://localhost:1", DEPLOY, PEOPLE, over or threading.Event())


def test_a_session_starts_the_run_and_is_stopped(portal: Portal) -> None:
    start()
    assert portal.asked == [
        ("POST", SERVER),
        ("GET", "users/grace"),
        ("GET", "users/grace"),
        ("PUT", "examples"),
        ("PUT", "examples/two_moons.py"),
        ("GET", "run-form"),
        ("POST", "run-form/s2/ask/start"),
        ("DELETE", SERVER),
        ("DELETE", "users/grace/tokens/t1"),
    ]
    assert portal.bodies["examples/two_moons.py"]["content"] == SCRIPT.read_text()
    assert portal.bodies["run-form/s2/ask/start"]["asked"]["source"] == "examples/two_moons.py"


def test_it_holds_no_gpus_and_ends_by_itself_within_an_hour(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "portal_metrics", SimpleNamespace(log=None))
    start()
    asked = portal.bodies["run-form/s2/ask/start"]["asked"]
    script = runpy.run_path(str(SCRIPT))
    seconds = script["EPOCHS"] * script["PAUSE"]
    points = 1
    for values in asked["values"].values():
        points *= len(values.split(","))
    for resources in (portal.bodies[SERVER], asked["resources"]):
        assert (resources["partition"], resources["gpus"]) == ("cpu", 0)
    assert seconds < time_seconds(asked["resources"]["time"])
    assert 1800 < points / asked["at_once"] * seconds < 3600


def test_a_refused_run_leaves_no_session_and_no_token(portal: Portal) -> None:
    portal.refusal = PortalError("Runs are not offered on this site.")
    with pytest.raises(PortalError, match="not offered"):
        start()
    assert portal.asked[-2:] == [("DELETE", SERVER), ("DELETE", "users/grace/tokens/t1")]


def test_a_session_that_is_gone_is_not_awaited(portal: Portal) -> None:
    portal.servers = [{}]
    with pytest.raises(PortalError, match="did not start"):
        start()


def test_the_end_of_the_demo_ends_the_wait(portal: Portal) -> None:
    portal.servers, over = [], threading.Event()
    over.set()
    with pytest.raises(PortalError, match="not ready in time"):
        start(over)
    assert ("PUT", "examples") not in portal.asked


@pytest.mark.parametrize(
    ("rate", "hidden", "best"), [("0.1", "8", (0.89, 1.0)), ("0.003", "2", (0.8, 0.88))]
)
def test_the_script_trains(
    monkeypatch: pytest.MonkeyPatch, rate: str, hidden: str, best: tuple[float, float]
) -> None:
    logged: list[dict[str, float]] = []
    metrics = SimpleNamespace(log=lambda **values: logged.append(values))
    monkeypatch.setitem(sys.modules, "portal_metrics", metrics)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), f"--rate={rate}", f"--hidden={hidden}"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert [values["step"] for values in logged] == list(range(1, 61))
    assert logged[-1]["loss"] < logged[0]["loss"]
    assert best[0] < logged[-1]["accuracy"] < best[1]


def started(monkeypatch: pytest.MonkeyPatch, root: Path, *, new: bool) -> tuple[int, list[str]]:
    """Begin a showcase whose part refuses; return how often it was begun, and what was said."""
    home, said, begun = Home(root, root), [], threading.Event()
    numbers: list[int] = []

    def refuse(*_: Any) -> None:
        numbers.append(1)
        begun.set()
        raise Unavailable("The portal does not answer.")

    home.demo.mkdir(parents=True, exist_ok=True)
    part = DemoPart(lambda *_: None, None, tuple, refuse)  # type: ignore[arg-type]
    monkeypatch.setattr(showcase, "loaded", lambda _: [part])
    monkeypatch.setattr(
        showcase, "FrameworkThread", lambda *_, **__: SimpleNamespace(start=lambda: None)
    )
    shown = Showcase(home, DEPLOY, said.append, simulated_gpus=new)
    shown.begin(root, ServiceApi("", ""), "http://localhost:1", PEOPLE)
    for thread in threading.enumerate():
        if thread.name == "examples":
            thread.join(10)
    return len(numbers), said


def test_a_new_demo_begins_it_and_tells_why_it_could_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = (1, ["examples: The portal does not answer."])
    assert started(monkeypatch, tmp_path, new=True) == told


def test_a_later_start_begins_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert started(monkeypatch, tmp_path, new=False) == (0, [])
