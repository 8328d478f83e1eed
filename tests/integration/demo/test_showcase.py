"""What the demo shows beyond its bare environments: a past, a README, frameworks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from api_client import Caller
from cells import run_cell
from conftest import Demo, a_home, demo_place, portal_demo, started_demo
from hub_client import wait_until

from portal.demo.daemons.ports import free_port
from portal.demo.showcase.frameworks import FRAMEWORKS

pytestmark = [pytest.mark.slurm, pytest.mark.hub, pytest.mark.containers]

BUILT = 900  # seconds for both, with the fetching of their packages
PYTORCH = """
import torch
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("logs") as board:
    board.add_scalar("loss", torch.ones(2).sum().item(), 0)
import os, pandas, matplotlib
assert any(name.startswith("events") for name in os.listdir("logs"))
"""
SCIKIT = """
from sklearn.linear_model import LogisticRegression
assert LogisticRegression().fit([[0.0], [1.0]], [0, 1]).predict([[1.0]])[0] == 1
import subprocess
assert subprocess.check_output(["Rscript", "-e", "cat(solve(matrix(4)))"]) == b"0.25"
"""


STARTERS = {
    "pytorch-cpu": {"pytorch.ipynb"},
    "scikit-learn-r": {"scikit-learn.ipynb", "r.ipynb"},
}


@pytest.fixture(scope="module")
def showcase() -> Iterator[Demo]:
    """A demo that is not bare, with a state directory of its own."""
    with pytest.MonkeyPatch.context() as patch, a_home() as place:
        patch.setenv("PORTAL_DEMO", "")
        with started_demo(f"--port={free_port()}", place=place) as demo:
            yield demo


def offered(person: Caller) -> set[str]:
    """The names of the environments that this person may use."""
    return {item["name"] for item in person.get("environments").json()["items"]}


@pytest.fixture(scope="module")
def ada(showcase: Demo) -> Iterator[Caller]:
    """Ada at the service."""
    with Caller(showcase.url, "ada") as caller:
        yield caller


def test_the_frameworks_are_shown_while_they_are_made(ada: Caller) -> None:
    def coming() -> list[str]:
        return [item["title"] for item in ada.get("upcoming-environments").json()["items"]]

    wait_until("an environment being prepared", coming, BUILT)
    page = ada.person.http.get("/services/portal/catalog")
    assert "Being prepared" in page.text
    assert coming()[0] in page.text or not coming()


def test_a_past_is_there_from_the_start_and_says_what_it_is(ada: Caller) -> None:
    sessions = ada.items("sessions")
    assert {session["ending"]["code"] for session in sessions} >= {"walltime", "out_of_memory"}
    assert all(session["job_id"].startswith("example-") for session in sessions)
    assert "example-… and all records from before" in ada.person.page("/services/portal/sessions")
    with Caller(str(ada.person.url), "grace") as grace:
        usage = grace.get("usage", params={"by": "account"}).json()["items"]
        assert {"research (example)", "dl101 (example)"} <= {row["key"] for row in usage}
    with Caller(str(ada.person.url), "barbara") as barbara:
        (start,) = barbara.get("courses/dl101/starts").json()["items"]
        report = barbara.get(f"courses/dl101/starts/{start['id']}").json()["report"]
        assert (report["total"], report["ready"], report["failed"]) == (30, 29, 1)


def test_a_run_goes_on_at_a_first_visit_and_its_session_has_ended(showcase: Demo) -> None:
    with Caller(showcase.url, "grace") as grace:
        (run,) = wait_until("the run of the demo", lambda: grace.items("runs"), 300)
        assert (run["name"], run["points"]) == ("two-moons", 8)
        wait_until(
            "its first points",
            lambda: (shown := grace.items("runs")[0])["counts"]["running"] and shown,
        )
        page = f"runs/{run['id']}"
        wait_until("a curve", lambda: "accuracy" in grace.get(f"{page}/points").text)
        assert grace.items("runs")[0]["state"] == "running"
        wait_until("no session", lambda: not grace.person.server("examples"))
        # The portal hears of it after the Hub.
        wait_until("none in the form", lambda: not grace.get("run-form").json()["sessions"])


def test_a_first_session_opens_on_the_readme_and_a_later_one_does_not(ada: Caller) -> None:
    person = ada.person
    assert person.launch({"environment": "python-venv"}).status_code in (201, 202)
    person.wait_ready()
    first = person.session("GET", "", follow_redirects=False)
    assert first.headers["location"].rstrip("?").endswith("/lab/tree/README.ipynb"), first.headers
    readme = person.session("GET", "api/contents/README.ipynb")
    assert readme.status_code == 200 and "Welcome" in readme.text
    person.stop()
    assert person.launch({"environment": "python-venv"}).status_code in (201, 202)
    person.wait_ready()
    later = person.session("GET", "", follow_redirects=False)
    assert later.headers["location"].split("?")[0].endswith("/lab"), later.headers
    person.stop()


def test_the_frameworks_are_offered_and_work(ada: Caller, showcase: Demo) -> None:
    person = ada.person
    for framework, code in zip(FRAMEWORKS, (PYTORCH, SCIKIT), strict=True):
        name = framework.name
        wait_until(
            f"{name} offered",
            lambda name=name: name in offered(ada),
            BUILT,
        )
        assert person.launch({"environment": name}).status_code in (201, 202)
        person.wait_ready()
        run_cell(person, code)
        place = f"api/contents/portal-starters/{name}"
        starters = wait_until(
            f"starters of {name}",
            lambda place=place: (
                (reply := person.session("GET", place)).status_code == 200 and reply
            ),
        )
        names = {entry["name"] for entry in starters.json()["content"]}
        assert names == STARTERS[name]
        person.stop()
    kernels = ada.get("environments/scikit-learn-r").json()["kernels"]
    assert {kernel["name"] for kernel in kernels} >= {"python3", "ir"}


def test_one_command_removes_the_past_and_nothing_else(ada: Caller, showcase: Demo) -> None:
    before = ada.items("sessions")
    real = [session["id"] for session in before if not session["job_id"].startswith("example-")]
    argv = portal_demo("--remove-examples", f"--home={showcase.home.root}")
    for words in ("Deleted the examples.", "There are no examples."):
        done = subprocess.run(
            argv, cwd=demo_place(), capture_output=True, text=True, env=dict(os.environ)
        )
        assert (done.returncode, done.stdout.strip()) == (0, words), done.stderr
    assert [session["id"] for session in ada.items("sessions")] == real
    assert len(real) < len(before)
