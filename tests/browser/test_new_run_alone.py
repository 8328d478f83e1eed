"""The form of a new run by itself, with the answers of a session: what is chosen and sent, and
where a refusal stands."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from looks import check
from pages_alone import open_alone
from run_fields import run_fields

from portal.launch.choices.dialog_fields import DialogField

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

HOSTILE = "<img src=x onerror=window.hacked=1>"
PARAMETERS = [
    {"name": "lr", "type": "float", "value": "0.1", "help": "learning rate"},
    {"name": "name", "type": "str", "value": "'a'", "help": HOSTILE},
]
FOLDERS: dict[str, list[dict[str, str]]] = {
    "": [
        {"name": "notes.txt", "path": "notes.txt", "type": "file"},
        {"name": "plain.ipynb", "path": "plain.ipynb", "type": "notebook"},
        {"name": "work", "path": "work", "type": "directory"},
    ],
    "work": [{"name": "train.py", "path": "work/train.py", "type": "file"}],
}


class Session:
    """A session's answers; ``sent`` has what it is asked to check or start."""

    def __init__(self) -> None:
        self.there = True
        self.projects: list[dict[str, Any]] = []
        self.sent: list[tuple[str, Any]] = []
        self.refusal: dict[str, str] | None = None

    @property
    def started(self) -> list[Any]:
        return [asked for part, asked in self.sent if part == "start"]

    def form(self, request: Any) -> dict[str, Any]:
        session = {"id": "s1", "title": "Lab", "server": "", "dialog": "/user/ada/lab?x"}
        sources = ["/home/ada/work/train.ipynb", "old.py"]
        sessions = [session] if self.there else []
        return {"sessions": sessions, "sources": sources, "projects": self.projects}

    def choices(self, request: Any) -> dict[str, Any]:
        fields: tuple[DialogField, ...] = run_fields()
        item = {"gpu_types": ["v100"], "default": {"gpus": 1, "time": "1:00:00"}, "kernels": []}
        names = {"lab": "Lab", "torch": "PyTorch"}
        return {
            "answer": {
                "items": [{**item, "environment": key, "title": names[key]} for key in names],
                "environment": "lab",
                "fields": [field.model_dump(mode="json") for field in fields],
                "points": 100,
                "pages": "/services/portal/runs/",
                "simulated": True,
            }
        }

    def source(self, request: Any) -> dict[str, Any]:
        query = parse_qs(urlsplit(request.url).query)
        path, first_cell = query["path"][0], "first_cell" in query
        if path.endswith(".py"):
            return {"answer": {"name": "train", "parameters": None}}
        known = PARAMETERS if first_cell or path == "work/train.ipynb" else []
        return {"answer": {"name": "train", "parameters": known}}

    def files(self, request: Any) -> dict[str, Any]:
        path = parse_qs(urlsplit(request.url).query).get("path", [""])[0]
        return {"answer": {"content": FOLDERS[path]}}

    def points(self, request: Any) -> dict[str, Any]:
        asked = self._asked("points", request)
        many = 1
        for text in asked["values"].values():
            many *= len(text.split(","))
        return {"answer": {"points": many}}

    def estimate(self, request: Any) -> dict[str, Any]:
        self._asked("estimate", request)
        return {"answer": {"words": "starts now.", "field": "", "nearby": []}}

    def start(self, request: Any) -> dict[str, Any]:
        self._asked("start", request)
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            return {"error": refusal}
        return {"answer": {"id": "5e2f3c1a", "name": "train", "message": ""}}

    def _asked(self, part: str, request: Any) -> Any:
        self.sent.append((part, json.loads(request.post_data)["asked"]))
        return self.sent[-1][1]


def answers_of(played: Session) -> dict[str, Any]:
    return {
        "run-form": played.form,
        "run-form/s1/choices": played.choices,
        "run-form/s1/unfinished": {"answer": {"items": [{"id": "1e2f3c1a", "name": "prepare"}]}},
        "run-form/s1/source": played.source,
        "run-form/s1/files": played.files,
        "run-form/s1/ask/points": played.points,
        "run-form/s1/ask/estimate": played.estimate,
        "run-form/s1/ask/start": played.start,
    }


@pytest.fixture
def session(page: Any) -> Session:
    played = Session()
    answers = answers_of(played)
    open_alone(page, "run_new.html", answers=answers, launch="/hub/spawn?next=x")
    page.get_by_text("First point: starts now.").wait_for()
    return played


def test_a_run_is_started_with_the_request_of_the_dialog(page: Any, session: Session) -> None:
    source = page.get_by_label("Notebook or script")
    expect(source).to_be_focused()
    offered = page.locator("#run-sources option")
    assert [option.get_attribute("value") for option in offered.all()] == [
        "~/work/train.ipynb",
        "old.py",
    ]
    source.fill("~/work/train.ipynb")
    expect(page.get_by_label("Name", exact=True)).to_have_value("train")
    expect(page.locator("#run-parameters")).to_contain_text("learning rate (float, default 0.1)")
    page.get_by_label("lr", exact=True).fill("0.1, 0.01")
    expect(page.locator("#run-points")).to_have_text("2 points, at most 2 at once")
    page.get_by_label("Environment").select_option("PyTorch")
    page.get_by_label("GPUs", exact=True).fill("2")
    page.get_by_label("Start after").select_option("prepare")
    check(page, "new-run")
    assert page.evaluate("window.hacked") is None
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url("**/services/portal/runs/5e2f3c1a")
    part, asked = session.sent[-1]
    assert part == "start"
    assert len(asked.pop("id")) == 32
    assert asked.pop("resources")["gpus"] == 2
    assert asked == {
        "source": "work/train.ipynb",
        "name": "train",
        "first_cell": False,
        "values": {"lr": "0.1, 0.01"},
        "file": "",
        "sample": None,
        "seed": None,
        "at_once": "10",
        "ranks": None,
        "after": "1e2f3c1a",
        "environment": "torch",
    }


def test_a_file_is_chosen_with_the_keyboard(page: Any, session: Session) -> None:
    page.get_by_role("button", name="Browse…").press("Enter")
    files = page.get_by_role("list", name="Files in ~")
    expect(files.get_by_role("button")).to_have_text([" work, folder", " plain.ipynb"])
    expect(files.get_by_role("button").first).to_be_focused()
    check(page, "new-run-files")
    page.keyboard.press("Enter")
    inside = page.get_by_role("list", name="Files in ~/work")
    expect(inside.get_by_role("button", name="..")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    source = page.get_by_label("Notebook or script")
    expect(source).to_have_value("~/work/train.py")
    expect(source).to_be_focused()
    page.get_by_role("button", name="Add parameter").click()
    page.get_by_label("Name of parameter 1").fill("depth")
    page.get_by_label("Values of parameter 1").fill("18,34,50")
    expect(page.locator("#run-points")).to_have_text("3 points, at most 3 at once")
    assert session.sent[-1][1]["values"] == {"depth": "18,34,50"}
    page.get_by_role("button", name="Browse…").press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Browse…")).to_be_focused()


def test_a_script_may_have_ranks(page: Any, session: Session) -> None:
    ranks = page.get_by_label("Ranks on each node")
    expect(ranks).to_be_hidden()
    page.get_by_label("Notebook or script").fill("~/work/train.py")
    ranks.fill("4")
    expect(page.locator("#run-points")).to_have_text("1 point")
    check(page, "new-run-ranks")
    session.refusal = {"code": "invalid", "message": "This is refused.", "field": "ranks"}
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("alert").filter(has_text="This is refused.")).to_be_visible()
    expect(ranks).to_have_attribute("aria-invalid", "true")
    assert session.sent[-1][1]["ranks"] == "4"
    page.get_by_label("Notebook or script").fill("~/work/train.ipynb")
    expect(ranks).to_be_hidden()
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url("**/services/portal/runs/5e2f3c1a")
    assert session.sent[-1][1]["ranks"] is None, "a notebook has one kernel"


def test_a_run_is_for_a_project(page: Any) -> None:
    played = Session()
    title = f"Proteins {HOSTILE}"
    fields = ["gpus", "time"]
    project = {"name": "proteins", "title": title, "environments": ["torch"], "fields": fields}
    played.projects = [project]
    open_alone(page, "run_new.html", answers=answers_of(played), launch="/hub/spawn?next=x")
    whose, environment = page.get_by_label("Run for"), page.get_by_label("Environment")
    expect(whose).to_have_value("")
    expect(environment.locator("option")).to_have_text(["Lab", "PyTorch"])
    page.get_by_label("Notebook or script").fill("~/work/train.py")
    expect(page.get_by_label("Ranks on each node")).to_be_visible()
    whose.select_option(label=f"project {title}")
    expect(environment.locator("option")).to_have_text(["PyTorch"])
    expect(page.get_by_label("Account")).to_have_count(0)
    expect(page.get_by_label("Ranks on each node")).to_be_hidden()
    check(page, "new-run-project")
    played.refusal = {"code": "refused", "message": "It is archived.", "field": "project"}
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("alert").filter(has_text="It is archived.")).to_be_visible()
    expect(whose).to_have_attribute("aria-invalid", "true")
    asked = played.started[-1]
    assert (asked["project"], asked["environment"]) == ("proteins", "torch")
    assert {*asked["resources"]} <= {*fields}
    assert any(part == "estimate" and ask["options"].get("project") for part, ask in played.sent)
    assert page.evaluate("window.hacked") is None
    whose.select_option("")
    expect(environment.locator("option")).to_have_text(["Lab", "PyTorch"])
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url("**/services/portal/runs/5e2f3c1a")
    assert "project" not in played.started[-1]


def test_a_space_s_session_offers_no_ranks(page: Any) -> None:
    played = Session()
    choices = played.choices(None)
    fields = choices["answer"]["fields"]
    choices["answer"]["fields"] = [field for field in fields if field["name"] != "nodes"]
    answers = {
        "run-form": played.form,
        "run-form/s1/choices": choices,
        "run-form/s1/unfinished": {"answer": {"items": []}},
        "run-form/s1/source": played.source,
        "run-form/s1/ask/points": played.points,
        "run-form/s1/ask/estimate": played.estimate,
    }
    open_alone(page, "run_new.html", answers=answers, launch="/hub/spawn?next=x")
    page.get_by_label("Notebook or script").fill("~/work/train.py")
    expect(page.locator("#run-points")).to_have_text("1 point")
    expect(page.get_by_label("Ranks on each node")).to_be_hidden()


def test_the_first_cell_has_the_parameters(page: Any, session: Session) -> None:
    page.get_by_label("Notebook or script").fill("~/plain.ipynb")
    choice = page.get_by_label("Use the first cell as parameters")
    expect(choice).not_to_be_checked()
    choice.check()
    page.get_by_label("lr", exact=True).fill("1,2")
    expect(page.locator("#run-points")).to_have_text("2 points, at most 2 at once")
    assert session.sent[-1][1]["first_cell"] is True
    page.get_by_label("Use the first cell as parameters").uncheck()
    expect(page.get_by_label("lr", exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("field", "label"),
    [("source", "Notebook or script"), ("values:lr", "lr"), ("file", "List of points"),
     ("gpus", "GPUs"), ("", "")],
)  # fmt: skip
def test_a_refusal_stands_beside_its_field(
    page: Any, session: Session, field: str, label: str
) -> None:
    page.get_by_label("Notebook or script").fill("~/work/train.ipynb")
    page.get_by_label("lr", exact=True).fill("high")
    session.refusal = {"code": "invalid", "message": "This is refused.", "field": field}
    page.get_by_role("button", name="Start run").click()
    refused = page.get_by_role("alert").filter(has_text="This is refused.")
    expect(refused).to_have_count(1)
    # The points are counted after that; their number says nothing of the refusal.
    expect(page.locator("#run-points")).to_have_text("1 point")
    while not any(part == "points" and asked["values"] for part, asked in session.sent):
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    expect(refused).to_have_count(1)
    if not label:
        expect(page.locator("#run-alert")).to_have_text("This is refused.")
        return
    control = page.get_by_label(label, exact=True)
    expect(control).to_have_attribute("aria-invalid", "true")
    described = str(control.get_attribute("aria-describedby")).split()
    texts = [page.locator(f"[id='{id_}']").inner_text() for id_ in described]
    assert "This is refused." in texts
    expect(control).to_be_visible()
    expect(page.get_by_role("button", name="Start run")).to_be_enabled()


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("reloaded", [True, False])
def test_a_start_without_an_answer_is_none_twice(
    page: Any, session: Session, there: bool, reloaded: bool
) -> None:
    """The Hub is killed while the session starts the run: it has started by then, or has not."""
    page.get_by_label("Notebook or script").fill("~/work/train.py")
    expect(page.locator("#run-points")).to_have_text("1 point")
    sent: list[Any] = []

    def lost(route: Any) -> None:
        sent.append(json.loads(route.request.post_data)["asked"])
        route.abort() if len(sent) == 1 else route.fallback()

    def run(route: Any) -> None:
        found = route.request.url.endswith(f"/runs/{sent[0]['id']}")
        route.fulfill(json={"run": {}} if found and there else {}, status=200 if there else 404)

    page.route("**/ask/start", lost)
    page.route("**/api/v1/runs/*", run)
    page.get_by_role("button", name="Start run").click()
    alert = page.locator("#run-alert")
    expect(alert).to_contain_text("Whether the run has started is not known.")
    expect(alert).not_to_contain_text("Retrying")
    page.wait_for_timeout(1000)  # the points are counted meanwhile
    expect(alert).to_contain_text("it starts only once")
    if reloaded:
        page.reload()
    if reloaded and not there:
        page.get_by_label("Notebook or script").fill("~/work/train.py")
        expect(page.locator("#run-points")).to_have_text("1 point")
        page.get_by_text("First point: starts now.").wait_for()
    if not (reloaded and there):
        page.get_by_role("button", name="Start run").click()
    if there:
        page.wait_for_url(f"**/services/portal/runs/{sent[0]['id']}")
        assert len(sent) == 1
    else:
        page.wait_for_url("**/services/portal/runs/5e2f3c1a")
        assert sent[0] == sent[1]


def test_the_points_are_counted_once_the_portal_answers_again(page: Any, session: Session) -> None:
    page.route("**/ask/points", lambda route: route.abort())
    page.get_by_label("Notebook or script").fill("~/work/train.py")
    alert = page.locator("#run-alert")
    expect(alert).to_have_text("The portal does not answer. Retrying…")
    page.unroute("**/ask/points")
    expect(page.locator("#run-points")).to_have_text("1 point")
    expect(alert).to_be_hidden()


def test_without_a_session_one_is_launched(page: Any) -> None:
    played = Session()
    played.there = False
    open_alone(page, "run_new.html", answers={"run-form": played.form}, launch="/hub/spawn?next=x")
    launch = page.get_by_role("link", name="Launch a session")
    expect(launch).to_have_attribute("href", "/hub/spawn?next=x")
    expect(page.locator("#new-run")).to_be_hidden()
    check(page, "new-run-without")
