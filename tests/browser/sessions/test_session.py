"""Life in a session, as a person lives it on the real demo.

A model is trained and its curve watched, the session gets two GPUs and gives them back with what
was not saved yet, its time is extended, and what nobody uses is ended after a warning. Pictures go
to build/screenshots/."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_client import Caller
from chromium import SOON
from hub_client import Person, wait_until, with_session
from jobs import living_jobs
from lab_page import command, log_in, new_notebook, run_cell, toast
from local_hosts import host_of
from looks import take_picture

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

MOVE = 120_000  # a job that starts, its server, the save and the page that loads again
WHO, NEIGHBOUR = "ada", "student08"
IDLE = "idle-venv"  # its name makes the demo's simulated GPUs idle

TRAIN = """
import time
import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

rng = np.random.default_rng(1)
x = rng.normal(size=(500, 3))
y = x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=500)
weights, losses = np.zeros(3), EventFileWriter("test-session/fit")
for step in range(40):
    error = x @ weights - y
    weights -= 0.1 * x.T @ error / len(x)
    loss = Summary(value=[Summary.Value(tag="loss", simple_value=float(np.mean(error**2)))])
    losses.add_event(Event(wall_time=time.time(), step=step, summary=loss))
losses.close()
print("weights", weights.round(1), "done")
"""


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Person]:
    """Ada in the container on CPUs, with nothing left over from other tests."""
    options = {"environment": "jupyterlab", "gpus": 0, "cpus": 2, "time": "0:30:00"}
    yield from with_session(Person(demo.url, WHO), options)
    demo.run(["rm", "-rf", "test-session"], user=demo.user(WHO), check=False)


@pytest.fixture
def lab(demo: Any, page: Any) -> Any:
    page.set_viewport_size({"width": 1400, "height": 900})
    log_in(page, demo)
    page.wait_for_url(re.compile(f"/user/{WHO}/"))
    return page


def address(demo: Any, name: str) -> str:
    return f"{host_of(demo.url, WHO)}/user/{WHO}/lab/workspaces/{name}"


def test_a_model_is_trained_and_its_curve_appears_in_tensorboard(
    demo: Any, ada: Person, lab: Any
) -> None:
    new_notebook(lab, address(demo, "test-train"))
    assert "1.  -2.   0.5" in run_cell(lab, TRAIN)

    command(lab, "Open TensorBoard")
    dialog = lab.get_by_role("dialog")
    dialog.locator(".jp-DirListing-item", has_text="test-session").click()
    dialog.get_by_role("button", name=re.compile("Select|Open|OK")).click()
    board = lab.frame_locator("iframe[src*='portal/tensorboard']")
    expect(board.get_by_text("loss", exact=True).first).to_be_visible()
    expect(board.locator("scalar-card, card-view").first).to_be_visible()
    lab.mouse.move(5, 5)
    lab.wait_for_timeout(1500)  # the curve is drawn in steps
    take_picture(lab, "tensorboard")


def test_how_long_it_took_is_told(demo: Any, ada: Person, lab: Any) -> None:
    """From the queue to the page that can be used."""
    expect(lab.locator(".portal-StatusItem button")).to_contain_text("left")
    with Caller(demo.url, WHO) as caller:
        (session,) = caller.items("sessions", ended=False)

        def steps() -> list[str]:
            startup = caller.get(f"sessions/{session['id']}").json()["startup"]
            return [one["name"] for one in startup["steps"]] if startup else []

        # The page tells of its own step, the server of its; whichever comes first.
        wanted = {"queue", "container", "imports", "extensions", "listening", "page"}
        wait_until("all were told of", lambda: wanted <= set(steps()))


def change_resources(page: Any, gpus: int) -> None:
    """From the palette: the dialog, this number of GPUs, and the new job is queued."""
    dialog = page.get_by_role("dialog")
    number = dialog.get_by_label("GPUs", exact=True)

    def opened() -> bool:
        """Or it is said why not, and somebody tries again."""
        if not number.is_visible():
            command(page, "Portal: Change resources")
        with contextlib.suppress(playwright.TimeoutError):
            number.wait_for(timeout=SOON)
        print(page.locator(".Toastify__toast").all_inner_texts())
        return bool(number.is_visible())

    wait_until("the dialog is there", opened, 3 * SOON / 1000)
    number.fill(str(gpus))
    expect(dialog).to_contain_text("Kernels end and their variables are lost")
    expect(dialog.get_by_role("status")).to_contain_text(re.compile("now|minute|known"))
    if gpus:
        take_picture(page, "change-resources")
    dialog.get_by_role("button", name="Queue new job").click()


def test_two_gpus_are_given_and_given_back_with_an_unsaved_notebook_kept(
    demo: Any, ada: Person, lab: Any
) -> None:
    new_notebook(lab, address(demo, "test-move"))
    run_cell(lab, "print('before the move', 'done')")
    (first,) = living_jobs(demo, WHO)
    seen = [first.id]
    for gpus in (2, 0):
        text = f"# not saved with {gpus} GPUs to come"
        cell = lab.locator(".jp-Notebook-cell .cm-content").last
        cell.click()
        cell.fill(text)
        expect(lab.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(1)
        lab.evaluate("window.before = true")
        change_resources(lab, gpus)

        def moved() -> Any:
            lab.wait_for_timeout(200)
            jobs = living_jobs(demo, WHO)
            return len(jobs) == 1 and jobs[0].id not in seen and jobs[0]

        job = wait_until("the new job has taken the place", moved, MOVE / 1000)
        seen.append(job.id)
        assert job.gres.endswith(":2") if gpus else "gpu" not in job.gres
        # The page loads again by itself; the address, the notebook and what was typed are the same.
        lab.wait_for_function("!window.before", timeout=MOVE)
        expect(lab.locator(".jp-Notebook .cm-content", has_text=text)).to_be_visible(timeout=MOVE)
        assert lab.url.startswith(address(demo, "test-move"))
        expect(lab.locator(".jp-OutputArea-output", has_text="before the move")).to_be_visible()
        expect(lab.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(0)
        held = f"held-after-{gpus}"
        printed = run_cell(
            lab,
            f"import os\nprint(os.environ.get('CUDA_VISIBLE_DEVICES', 'none'), '{held}')",
            held,
        )
        assert len(re.findall(r"\d+", printed.split(held)[0])) == gpus


@pytest.fixture
def idle_environment(demo: Any) -> Iterator[str]:
    """An environment whose sessions are ended after three minutes without use of their GPUs."""
    folder = Path(demo.words["environments"])
    words = yaml.safe_load((folder / "python-venv.yaml").read_text())
    words |= {"name": IDLE, "title": "Minutes of idleness", "idle_time": "0:03:00"}
    file = folder / f"{IDLE}.yaml"
    file.write_text(yaml.safe_dump(words))
    yield IDLE
    file.unlink()


def test_the_end_is_put_off_and_idle_gpus_are_given_back(
    demo: Any, ada: Person, lab: Any, idle_environment: str
) -> None:
    """Ada extends her session and says that she needs its GPU; her neighbour says nothing."""
    if not demo.words["simulated_gpus"]:
        pytest.skip("needs the demo's simulated GPUs, which can be told to be idle")
    lab.goto("about:blank")  # Lab would complain that its server goes
    ada.stop()
    neighbour = Person(demo.url, NEIGHBOUR)
    neighbour.stop()
    options = {"environment": idle_environment, "gpus": 1, "time": "0:08:00"}
    try:
        for someone in (neighbour, ada):
            assert wait_until(
                "the environment is offered",
                lambda one=someone: one.launch(options).status_code in (201, 202),
            )
        for someone in (neighbour, ada):
            someone.wait_ready()
        lab.goto(f"{address(demo, 'test-end')}?reset")
        item = lab.locator(".portal-StatusItem button")
        expect(item).to_contain_text(re.compile(r"\d min left"))

        warning = toast(lab, "This session ends in")
        expect(warning).to_be_visible()
        warning.get_by_role("button", name="Extend").click()
        dialog = lab.get_by_role("dialog")
        choices = dialog.get_by_role("combobox")
        choices.select_option(choices.locator("option", has_text="30 min, until").inner_text())
        dialog.get_by_role("button", name="Extend").click()
        expect(item).to_contain_text(re.compile(r"3\d min left"))

        item.click()
        panel = lab.locator("#portal-session-panel")
        expect(panel).to_contain_text("GPU (simulated): 0 % busy")

        idle = toast(lab, "have been idle since")
        expect(idle).to_contain_text("The session stops at", timeout=2 * SOON)
        take_picture(lab, "idle-warning")
        idle.get_by_role("button", name="Keep session").click()
        expect(idle).to_have_count(0)

        wait_until(
            "the neighbour's session is ended", lambda: not living_jobs(demo, NEIGHBOUR), 300
        )
        wait_until(
            "and its owner is told why",
            lambda: "GPUs" in neighbour.page("/hub/home") and "idle" in neighbour.page("/hub/home"),
        )
        assert [job.state for job in living_jobs(demo, WHO)] == ["RUNNING"]
    finally:
        neighbour.stop()
