""" "Run as job" in JupyterLab: a real JupyterLab and session's server without a Hub; the portal's
service is played on loopback. With the real portal: test_job_kernels.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from chromium import SOON
from lab_page import command, palette, toast
from looks import STILL, take_picture, violations
from quiet_http import QuietHandler, serving
from run_fields import run_fields
from session_server import BASE, TOKEN, SessionServer, a_server, wait_for

from portal.models.session.estimate import Outlook, StartAnswer
from portal.models.session.resources import Resources
from portal.work.run.endpoints.choices import RunChoices, RunEnvironment

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jupyterlab")
expect = playwright.expect

PREFIX = "/services/portal/api/v1/"
PARAMETERS = 'lr = 0.1  # learning rate\nname = "<b>a</b>"\n'
NO_GPUS = "The partition 'cpu' has no GPUs."
CHOICES = RunChoices(
    items=(
        RunEnvironment(
            environment="torch",
            title="PyTorch",
            gpu_types=("v100",),
            default=Resources(gpus=1, cpus=2, memory="8G", time="1:00:00"),
        ),
        RunEnvironment(environment="r", title="R", gpu_types=(), default=Resources(cpus=1)),
    ),
    environment="torch",
    fields=run_fields({"account": "physics"}),
    points=100,
    pages="/services/portal/runs/",
)


class Portal:
    """The portal's service; ``refusal``: why it takes no run; ``known``: those that it has. It
    refuses the partition "cpu"."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.estimated: list[dict[str, Any]] = []
        self.refusal = ""
        self.known: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "session/runs/choices":
            return 200, CHOICES.model_dump(mode="json")
        if path.startswith("runs?"):
            return 200, {"items": self.known}
        if path == "session/runs/estimates":
            self.estimated.append(body["options"])
            answer = StartAnswer(outlook=Outlook.NOW, words="Starts now.", made_at=1.0)
            if body["options"].get("partition") == "cpu":
                change = {"outlook": Outlook.REFUSED, "words": NO_GPUS, "field": "partition"}
                answer = answer.model_copy(update=change)
            return 200, answer.model_dump(mode="json")
        if (method, path) == ("POST", "session/runs") and not self.refusal:
            self.runs.append(body)
            return 202, {"id": body["id"], "server": "run-1"}
        error = {"message": self.refusal or "It is not played.", "field": self.field}
        return 403, {"error": error}


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = portal.answer(self.command, self.path.removeprefix(PREFIX), body)
            self.send_whole(status, json.dumps(answer).encode())

        do_POST = do_GET

    portal = Portal()
    with serving(Handler) as server:
        portal.url = f"http://127.0.0.1:{server.server_address[1]}/services/portal/"  # type: ignore[attr-defined]
        yield portal


@pytest.fixture(scope="module")
def server(lab_python: Path, portal: Any) -> Iterator[SessionServer]:
    variables = {"PORTAL_SERVICE_URL": portal.url, "JUPYTERHUB_API_TOKEN": "a-token"}
    with a_server(lab_python, PORTAL_ENVIRONMENT="torch", **variables) as running:
        yield running


@pytest.fixture
def home(server: SessionServer, portal: Portal) -> Path:
    """The session's home with a notebook and a script, and no runs."""
    portal.runs.clear()
    portal.known = []
    portal.refusal = portal.field = ""
    cells = [
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("print(lr)"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, server.home / "train.ipynb")
    (server.home / "script.py").write_text("print('on')\n")
    (server.home / "points.csv").write_text("lr\n0.1\n0.2\n0.3\n")
    return server.home


@pytest.fixture
def lab(page: Any, server: SessionServer, home: Path) -> Any:
    page.set_viewport_size({"width": 1400, "height": 900})
    return page


def open_lab(page: Any, server: SessionServer, path: str, query: str = "reset") -> None:
    page.goto(f"{server.url}{BASE}lab{path}?{query}&token={TOKEN}")


def click_button(page: Any) -> Any:
    """Open the dialog by the button in the toolbar; return it, once the points are counted."""
    page.get_by_role("button", name="Run as job").click(timeout=90_000)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(re.compile(r"^\d+ points?\b"))).to_be_visible()
    return dialog


def start(dialog: Any) -> None:
    dialog.get_by_role("button", name="Start run").click()


def test_two_clicks_start_a_run(
    lab: Any, server: SessionServer, home: Path, portal: Portal
) -> None:
    open_lab(lab, server, "/tree/train.ipynb")
    dialog = click_button(lab)
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("train")
    expect(dialog.get_by_label("Environment")).to_have_value("torch")
    expect(dialog.get_by_text("First point: Starts now.")).to_be_visible()
    expect(dialog.get_by_label("Start after")).to_have_count(0)  # nothing waits or runs
    expect(dialog.get_by_label("Ranks on each node")).to_have_count(0)  # a notebook has one kernel
    start(dialog)
    told = toast(lab, "Run “train” has started: 1 point, at most 1 at once.")
    expect(told).to_be_visible()
    (asked,) = portal.runs
    assert (asked["points"], asked["at_once"], asked["environment"]) == (1, 10, "torch")
    assert (asked["gpus"], asked["memory"], asked["time"]) == (1, "8G", "1:00:00")
    assert json.loads((home / "runs/train/run.json").read_text())["id"] == asked["id"]
    with lab.context.expect_page() as opened:
        told.get_by_role("button", name="Show").click()
    assert opened.value.url.endswith(f"/services/portal/runs/{asked['id']}")


def test_a_run_starts_once_although_its_answer_is_lost(
    lab: Any, server: SessionServer, home: Path, portal: Portal
) -> None:
    open_lab(lab, server, "/tree/train.ipynb")
    dialog = click_button(lab)
    dialog.get_by_label("Name", exact=True).fill("once")

    def lose(route: Any) -> None:
        asked = json.loads(route.request.post_data)
        assert server.client.post("portal/runs", json=asked).is_success
        route.abort()

    lab.route(re.compile(r"/portal/runs(\?\d*)?$"), lose, times=1)
    start(dialog)
    unknown = "does not answer. Whether the run has started is not known."
    expect(dialog.get_by_role("alert").first).to_contain_text(unknown)
    assert len(portal.runs) == 1
    start(dialog)
    expect(toast(lab, "Run “once” has started: 1 point, at most 1 at once.")).to_be_visible()
    assert len(portal.runs) == 1
    assert [path.name for path in (home / "runs").glob("once*")] == ["once"]
    # Another dialog starts another run.
    dialog = click_button(lab)
    start(dialog)
    expect(toast(lab, "Run “train")).to_be_visible()
    assert len({run["id"] for run in portal.runs}) == 2


def test_the_points_are_counted_and_errors_are_beside_their_fields(
    lab: Any, server: SessionServer, home: Path, portal: Portal
) -> None:
    open_lab(lab, server, "/tree/train.ipynb")
    dialog = click_button(lab)
    expect(dialog.get_by_text("learning rate (float, default 0.1)")).to_be_visible()
    expect(dialog.get_by_text('str, default "<b>a</b>"')).to_be_visible()
    rate = dialog.get_by_label("lr", exact=True)
    rate.fill("0.1, 0.01, 0.001")
    dialog.get_by_label("name", exact=True).fill("a, b")
    expect(dialog.get_by_text("6 points, at most 6 at once")).to_be_visible()
    look(lab, "run-as-job")
    rate.fill("high")
    expect(rate).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_text("'lr' is a number in the notebook, and cannot be")).to_be_visible()
    look(lab, "run-as-job-wrong")
    rate.fill(",".join(["0.1"] * 60))
    expect(dialog.get_by_text("120 points; the limit of this site is 100.")).to_be_visible()
    rate.fill("0.1,0.2")
    dialog.get_by_text("List or sample").click()
    dialog.get_by_label("Sample").fill("3")
    dialog.get_by_label("Seed").fill("1")
    dialog.get_by_label("Points at once").fill("2")
    expect(dialog.get_by_text("3 points, at most 2 at once")).to_be_visible()
    dialog.get_by_label("Environment").select_option("r")
    dialog.get_by_label("Name", exact=True).fill("rates")
    # What the portal refuses is said here, with all that was typed, and leaves nothing.
    portal.refusal = "You have 20 runs waiting or running; the limit is 20."
    start(dialog)
    expect(dialog.get_by_text(portal.refusal)).to_be_visible()
    expect(rate).to_have_value("0.1,0.2")
    assert not (home / "runs/rates").exists()
    portal.refusal = ""
    start(dialog)
    expect(toast(lab, "Run “rates” has started: 3 points, at most 2 at once.")).to_be_visible()
    (asked,) = portal.runs
    assert (asked["environment"], asked["points"], asked["cpus"]) == ("r", 3, 1)
    points = json.loads((home / "runs/rates/run.json").read_text())["points"]
    assert {(point["lr"], point["name"]) for point in points} < {
        (rate, name) for rate in (0.1, 0.2) for name in "ab"
    }


def test_every_field_of_a_launch_can_be_chosen(
    lab: Any, server: SessionServer, home: Path, portal: Portal
) -> None:
    """Folded as on the launch page; the estimate follows; a refusal is beside its field. Of the
    other runs, those that have not ended are offered."""
    counts = {"waiting": 4, "succeeded": 1, "failed": 1}
    portal.known = [
        {"id": "2e2f3c1a", "name": "prepare", "points": 6, "counts": counts, "ended_at": None},
        {"id": "1e2f3c1a", "name": "old", "points": 1, "counts": {}, "ended_at": 5.0},
    ]
    open_lab(lab, server, "/tree/train.ipynb")
    dialog = click_button(lab)
    dialog.get_by_label("Name", exact=True).fill("fields")
    after = dialog.get_by_label("Start after")
    offered = ["Any time", "prepare · 2 of 6 points ended, 1 failed"]
    expect(after.locator("option")).to_have_text(offered)
    after.select_option(offered[1])
    partition, account = dialog.get_by_label("Partition"), dialog.get_by_label("Account")
    expect(dialog.get_by_label("GPUs", exact=True)).to_be_visible()
    expect(partition).to_be_hidden()
    dialog.get_by_text("More: CPUs, memory, partition, account, QOS, reservation, nodes").click()
    expect(partition.locator("option:checked")).to_have_text("Automatic")
    expect(account.locator("option:checked")).to_have_text("The session's (physics)")
    expect(partition.locator("option[value=gpu]")).to_have_text(re.compile("GPUs free"))
    partition.select_option("cpu")
    wrong = dialog.get_by_role("alert").filter(has_text=NO_GPUS)
    expect(wrong).to_be_visible()
    expect(partition).to_have_attribute("aria-invalid", "true")
    look(lab, "run-as-job-fields")
    partition.select_option("gpu")
    dialog.get_by_label("Nodes", exact=True).fill("2")
    dialog.get_by_label("Node features").select_option("nvlink")
    expect(wrong).to_be_hidden()
    expect(dialog.get_by_text("First point: Starts now.")).to_be_visible()
    chosen = {"partition": "gpu", "nodes": 2, "constraint": "nvlink"}
    assert chosen.items() <= portal.estimated[-1].items()
    # What is refused at the start is shown there too, in the part that opens for it.
    portal.refusal, portal.field = "The QOS 'normal' is full.", "qos"
    dialog.get_by_text("More: ").click()
    start(dialog)
    expect(dialog.get_by_role("alert").filter(has_text=portal.refusal)).to_be_visible()
    expect(dialog.get_by_label("QOS")).to_have_attribute("aria-invalid", "true")
    expect(partition).to_have_value("gpu")
    expect(dialog.get_by_text("First point: Starts now.")).to_be_visible()
    expect(dialog.get_by_role("alert").filter(has_text=portal.refusal)).to_be_visible()
    portal.refusal, portal.field = "No run can start after 'prepare'.", "after"
    dialog.get_by_label("QOS").select_option("long")
    start(dialog)
    expect(dialog.get_by_role("alert").filter(has_text=portal.refusal)).to_be_visible()
    expect(after).to_have_attribute("aria-invalid", "true")
    expect(after).to_have_value("2e2f3c1a")
    portal.refusal = ""
    start(dialog)
    said = "Run “fields” starts once all points of “prepare” have succeeded: 1 point"
    expect(toast(lab, said)).to_be_visible()
    assert portal.runs[0]["after"] == "2e2f3c1a"
    assert {**chosen, "qos": "long"}.items() <= portal.runs[0].items()
    assert "account" not in portal.runs[0], "it is the session's"


def look(page: Any, name: str) -> None:
    """Take pictures of the dialog, on a phone too; fail if axe finds anything in it, or it is wider
    than the phone."""
    for size, width in (("phone", 390), ("wide", 1400)):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(STILL)
        take_picture(page, f"{name}-{size}")
        found = violations(page, ".jp-Dialog-content")
        assert not found, "\n".join(found)
        fits = "node => node.scrollWidth <= node.clientWidth"
        assert page.locator(".portal-Run").evaluate(fits), f"it is cut off at {width} px"


def test_a_notebook_that_cannot_be_saved_is_not_run(
    lab: Any, server: SessionServer, portal: Portal
) -> None:
    open_lab(lab, server, "/tree/train.ipynb")
    cell = lab.locator(".jp-Notebook-cell .cm-content").last
    cell.click(timeout=90_000)
    cell.fill("print(lr, 'changed')")
    refused = {"status": 507, "body": '{"message": "The disk is full."}'}
    lab.route(
        "**/api/contents/train.ipynb*",
        lambda route: (
            route.fulfill(**refused) if route.request.method == "PUT" else route.continue_()
        ),
    )
    lab.get_by_role("button", name="Run as job").click(timeout=90_000)
    lab.locator(".jp-Dialog-footer button").click()  # what JupyterLab itself says of it
    expect(toast(lab, "“train.ipynb” could not be saved, so no run was started.")).to_be_visible()
    assert portal.runs == []


def test_a_cell_becomes_a_script(
    lab: Any, server: SessionServer, home: Path, portal: Portal
) -> None:
    """By its context menu. What was typed since the last save is in it, and nothing is
    overwritten."""
    (home / "train-cell.py").write_text("mine")
    open_lab(lab, server, "/tree/train.ipynb")
    cell = lab.locator(".jp-Notebook-cell .cm-content").last
    cell.click(timeout=90_000)
    cell.fill("print(rate)")
    expect(lab.get_by_role("button", name="Run as job")).to_be_visible()
    cell.click(button="right")
    lab.locator(".lm-Menu").get_by_text("Run this cell as job").click()
    dialog = lab.get_by_role("dialog")
    dialog.get_by_role("button", name="Add parameter").click()
    dialog.get_by_label("Name of parameter 1").fill("rate")
    dialog.get_by_label("Values of parameter 1").fill("1,2")
    expect(dialog.get_by_text("2 points, at most 2 at once")).to_be_visible()
    start(dialog)
    expect(toast(lab, "Run “train-cell” has started: 2 points")).to_be_visible()
    assert (home / "train-cell.py").read_text() == "mine"
    assert (home / "train-cell-2.py").read_text().endswith("\nprint(rate)\n")
    saved = nbformat.read(home / "train.ipynb", 4)
    assert saved.cells[-1].source == "print(rate)", "the notebook was saved first"
    for script in home.glob("train-cell*"):
        script.unlink()


def test_a_script_from_the_file_browser_and_the_palette(
    lab: Any, server: SessionServer, portal: Portal
) -> None:
    open_lab(lab, server, "")
    file = lab.locator(".jp-DirListing-item", has_text="script.py")
    expect(file).to_be_visible(timeout=90_000)
    dialog = lab.get_by_role("dialog")

    def opened() -> bool:
        """The entry is there once the portal has said that runs are offered."""
        file.click(button="right")
        entry = lab.locator(".lm-Menu").get_by_text("Run as job")
        if not entry.is_visible():
            lab.keyboard.press("Escape")
            return False
        entry.click()
        return True

    wait_for(opened)
    dialog.get_by_text("List or sample").click()
    dialog.get_by_label("List of points").fill("nowhere.csv")
    expect(dialog.get_by_text("cannot be read")).to_be_visible()
    dialog.get_by_label("List of points").fill("points.csv")
    expect(dialog.get_by_text("3 points, at most 3 at once")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    assert portal.runs == []
    file.dblclick()
    expect(lab.get_by_role("button", name="Run as job")).to_be_visible(timeout=SOON)
    command(lab, "Portal: Run as job")
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("script")
    ranks = dialog.get_by_label("Ranks on each node")
    ranks.fill("300")
    refused = dialog.get_by_role("alert").filter(has_text="Must be a whole number from 1 to 256.")
    expect(refused).to_be_visible()
    expect(ranks).to_have_attribute("aria-invalid", "true")
    ranks.fill("4")
    expect(refused).to_be_hidden()
    expect(dialog.get_by_text("1 point", exact=True)).to_be_visible()
    look(lab, "run-as-job-ranks")
    start(dialog)
    expect(toast(lab, "Run “script” has started: 1 point")).to_be_visible()
    assert portal.runs[0]["ranks"] == 4
    toast(lab, "Run “script”").get_by_role("button", name="Open folder").click()
    expect(lab.locator(".jp-DirListing-item", has_text="run.json")).to_be_visible()


def test_the_portal_s_link_opens_the_dialog(
    lab: Any, server: SessionServer, portal: Portal
) -> None:
    open_lab(lab, server, "", "portal-run=new")
    dialog = lab.get_by_role("dialog")
    expect(dialog).to_contain_text("Choose a notebook or script for a new run", timeout=90_000)
    expect(lab).not_to_have_url(re.compile("portal-run"))
    dialog.locator(".jp-DirListing-item", has_text="train.ipynb").click()
    dialog.get_by_role("button", name="Select").click()
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("train")
    dialog.get_by_role("button", name="Cancel").click()


def test_without_runs_nothing_is_offered(lab: Any, server: SessionServer) -> None:
    """On a site that offers none, and in a course's session."""
    lab.route(
        re.compile(r"/portal/runs(\?\d*)?$"),
        lambda route: route.fulfill(status=403, body='{"message": "Not offered."}'),
    )
    open_lab(lab, server, "/tree/train.ipynb", "portal-run=new")
    expect(toast(lab, "Runs are not offered in this session.")).to_be_visible(timeout=90_000)
    expect(lab.get_by_role("button", name="Run as job")).to_have_count(0)
    palette(lab, "Portal: Run")
    expect(lab.locator(".lm-CommandPalette-itemLabel", has_text="Run as job")).to_have_count(0)
