"""The lists of sessions and of runs by themselves, with the answers that they get: what opens, what
is chosen, and what they look like at any width."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from looks import check
from pages_alone import open_alone
from session_records import recorded

from portal.models.catalog.environment import Environment
from portal.models.session.run import Run
from portal.models.session.session import SessionState
from portal.models.session.usage import JobUsage
from portal.sessions.item import SessionContext, session_item
from portal.work.run.results.item import run_item

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

NOW = time.time()
LAB = Environment.model_validate(
    {"name": "lab", "title": "Lab with a long title", "kind": "venv", "path": "/opt/lab"}
)
RESOURCES = {"gpus": 2, "gpu_type": "v100", "time": "2:00:00", "memory": "64G", "cpus": 8}
RUN_ID = "5e2f3c1a0b7d4c8e9a6f"
STATES = ("running", "pending")  # of the workers of a cluster
HOSTILE = "<img src=x onerror=window.hacked=1>"


def query_of(request: Any) -> dict[str, str]:
    return {name: value[0] for name, value in parse_qs(urlsplit(request.url).query).items()}


def listed(items: list[Any], total: int | None = None) -> dict[str, Any]:
    return {"items": items, "next": None, "total": len(items) if total is None else total}


# -- sessions --------------------------------------------------------------------------------------


def session(id_: str, server: str = "", **more: Any) -> dict[str, Any]:
    """Return the API's item of a session of ada's; ``usage``: of its job."""
    usage = more.pop("usage", None)
    options = {"environment": "lab", **RESOURCES, **more.pop("options", {})}
    values = {"environment": "lab", "environment_title": LAB.title, "submitted_at": NOW - 9000}
    record = recorded(id=id_, user="ada", server=server, options=options, **{**values, **more})
    context = SessionContext(viewer="ada", base="/", now=NOW, environment=LAB, usage=usage)
    return session_item(record, context).model_dump(mode="json")


def ended(id_: str, code: str, words: str, **more: Any) -> dict[str, Any]:
    times = {"started_at": NOW - 8900, "ended_at": NOW - 100, "job_id": "41"}
    why = {"ending_code": code, "ending_message": words, "state": SessionState.ENDED}
    return session(id_, **{**times, **why, **more})


USED = JobUsage(
    job_id="41", submitted_at=1, day="", user="ada", gpus=2, held=17_600, used=900, measured=17_600
)
RUNNING = session(
    "s1", state=SessionState.RUNNING, job_id="40", started_at=NOW - 600, nodes=("gpu01",)
)
JOBS = [
    session(
        "k1",
        "kernel-5e2f3c1a",
        state=SessionState.RUNNING,
        job_id="42",
        started_at=NOW - 60,
        options={"kernel": {"id": "5e2f3c1a", "name": "python3"}},
    ),
    session(
        "r1",
        f"run-{RUN_ID}",
        job_id="43",
        environment_title="Run rates of Lab",
        options={"run": {"id": RUN_ID, "name": "rates"}},
    ),
]
ENDED = [
    ended("e1", "walltime", "The session reached its time limit of 2 h.", usage=USED),
    ended("e2", "out_of_memory", f"A process used more memory than 64 GB: {HOSTILE}" * 3),
    ended("e3", "stopped", "You stopped the session.", server="second"),
]


class Sessions:
    """The API's answers about sessions; ``asked`` has the queries for ended ones."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, str]] = []

    def __call__(self, request: Any) -> dict[str, Any]:
        query = query_of(request)
        pageless = query.get("has_page") == "false"
        if query["ended"] == "true":
            self.asked.append(query)
            return listed(JOBS if pageless else ENDED)
        return listed(JOBS if pageless else [RUNNING])


@pytest.fixture
def sessions(page: Any) -> Sessions:
    answers = Sessions()
    open_alone(page, "sessions.html", answers={"sessions": answers}, parts=[])
    page.locator("#ended .entry").nth(2).wait_for()
    page.locator("#living .entry").wait_for()
    return answers


def test_a_line_opens_with_the_keyboard(page: Any, sessions: Sessions) -> None:
    first = page.locator("#ended .entry").first
    facts = first.get_by_text("2 \u00d7 v100, 8 CPUs, 64 GB")
    expect(first).to_contain_text("Time limit")
    expect(first).to_contain_text("ran 2 h 26 min")
    expect(facts).to_be_hidden()
    expect(first.get_by_role("link", name="Launch as suggested")).to_be_visible()
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(facts).to_be_visible()
    expect(first.locator(".entry-side")).to_be_visible()
    expect(first.locator(".entry-side")).to_contain_text("5 % busy")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Launch")
    check(page, "sessions-alone")
    assert page.evaluate("window.hacked") is None


def test_clusters_are_listed_and_stopped(page: Any) -> None:
    worker = {"server": "dask-5e2f-0", "job_id": "50", "submitted_at": NOW, "started_at": NOW}
    running = [{**worker, "number": number, "state": state} for number, state in enumerate(STATES)]
    cluster = {
        "id": "5e2f3c1a",
        "work": "dask-worker",
        "replicas": 3,
        "options": {"environment": "lab", "dask": {"session": "40"}},
        "created_at": NOW,
        "problem": HOSTILE,
        "running": running,
    }
    other = {**cluster, "id": "0123456789", "work": "workers"}
    of_ray = {"environment": "lab", "ray": {"session": "40"}}
    ray = {**cluster, "id": "7a2b3c4d", "work": "ray-worker", "options": of_ray}
    answers = {
        "sessions": Sessions(),
        "replica-sets": lambda request: {"items": [other, cluster, ray], "most": 10},
        "replica-sets/5e2f3c1a": lambda request: {"message": request.method},
    }
    open_alone(page, "sessions.html", answers=answers, parts=["sessions_clusters.html"])
    expect(page.locator("#clusters .entry")).to_have_count(2)
    without = page.locator("#clusters .entry", has_text="Ray cluster 7a2b3c")
    expect(without).to_contain_text("1 of 3 workers")
    expect(without.get_by_role("link", name="Open dashboard")).to_have_count(0)
    shown = page.locator("#clusters .entry", has_text="Dask cluster 5e2f3c")
    expect(shown).to_contain_text("1 of 3 workers")
    expect(shown.locator(".why")).to_have_text(HOSTILE)
    dashboard = shown.get_by_role("link", name="Open dashboard")
    expect(dashboard).to_have_attribute("href", re.compile("/portal/clusters/5e2f3c1a/status$"))
    check(page, "sessions-clusters-alone")
    assert page.evaluate("window.hacked") is None
    shown.get_by_role("button", name="Stop").press("Enter")
    with page.expect_request("**/replica-sets/5e2f3c1a") as asked:
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    assert asked.value.method == "DELETE"


def test_a_kept_cluster_is_stopped_with_its_scheduler(page: Any) -> None:
    job = {"server": "dasks-5e2f-0", "submitted_at": NOW, "started_at": NOW, "number": 0}
    scheduler = {
        "id": "5e2f3c1a-0",
        "work": "dask-scheduler",
        "replicas": 1,
        "options": {"environment": "lab"},
        "created_at": NOW,
        "problem": "",
        "running": [{**job, "job_id": "40", "state": "running"}],
    }
    workers = {**scheduler, "id": "5e2f3c1a", "work": "dask-worker", "replicas": 2, "running": []}
    sets = [scheduler, {**workers, "options": {"environment": "lab", "dask": {"session": ""}}}]
    answers = {
        "sessions": Sessions(),
        "replica-sets": lambda request: {"items": sets, "most": 10},
        "replica-sets/5e2f3c1a-0": lambda request: {"message": request.method},
    }
    open_alone(page, "sessions.html", answers=answers, parts=["sessions_clusters.html"])
    shown = page.locator("#clusters .entry")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("0 of 2 workers")
    expect(shown).to_contain_text('Connect to it from a notebook with dask("5e2f3c").')
    expect(shown).to_contain_text("another follows: tasks and results that are on the cluster then")
    dashboard = shown.get_by_role("link", name="Open dashboard")
    expect(dashboard).to_have_attribute("href", re.compile("/portal/clusters/5e2f3c1a/status$"))
    check(page, "sessions-kept-alone")

    del sets[1]  # no client has it
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(shown).to_contain_text("It has no workers now: those of a kept cluster without a client")
    shown.get_by_role("button", name="Stop").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its scheduler, and what is in memory there, are gone.")
    with page.expect_request("**/replica-sets/5e2f3c1a-0") as asked:
        dialog.get_by_role("button", name="Stop").click()
    assert asked.value.method == "DELETE"


def test_kernels_and_runs_stand_apart(page: Any, sessions: Sessions) -> None:
    expect(page.locator("#living .entry")).to_have_count(1)
    expect(page.locator("#living-count")).to_have_text("1 session")
    apart = page.locator("#apart")
    expect(page.locator("#apart-words")).to_have_text("1 run and 1 kernel in jobs of their own")
    expect(apart.locator(".entry").first).to_be_hidden()
    page.locator("#apart > summary").press("Enter")
    run = apart.get_by_role("link", name="Open run")
    expect(run).to_have_attribute("href", re.compile(f"/services/portal/runs/{RUN_ID}$"))
    apart.get_by_role("button", name="More actions").first.click()
    expect(apart.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    # What is open stays so when the page asks again.
    page.locator("#apart .entry summary").first.press("Enter")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    facts = apart.locator(".entry").first.locator(".portal-facts")
    expect(facts).to_be_visible()
    expect(facts).to_contain_text("job 42")
    assert sessions.asked[-1]["has_page"] == "true"
    page.get_by_label("Show").select_option("Kernels and runs")
    expect(page.locator("#ended .entry")).to_have_count(2)
    assert sessions.asked[-1]["has_page"] == "false" and "kind=jobs" in page.url
    href = page.locator("#sessions-csv").get_attribute("href")
    assert href is not None and "has_page=false" in href


def test_a_session_has_one_main_button(page: Any, sessions: Sessions) -> None:
    card = page.locator("#living .entry")
    expect(card.locator(".btn-jupyter")).to_have_text([f"Open {LAB.title}, job 40"])
    more = card.get_by_role("button", name="More actions")
    more.focus()
    page.keyboard.press("Enter")
    for name in ("TensorBoard", "Details and log"):
        expect(card.get_by_role("link", name=name)).to_be_visible()
    expect(card.get_by_role("button", name="Change resources…")).to_be_visible()
    card.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep running").click()
    expect(more).to_be_focused()


# -- runs ------------------------------------------------------------------------------------------


def run(number: int, **more: Any) -> Run:
    values = {
        "id": f"{number:08x}",
        "name": f"rates-{number}",
        "source": "/home/ada/work/a folder/train.ipynb",
        "folder": f"/home/ada/work/runs/rates-{number}",
        "points": 12,
        "user": "ada",
        "server": f"run-{number:08x}",
        "environment": "lab",
        "resources": {"gpus": 1, "gpu_type": "v100", "memory": "8G"},
        "created_at": NOW - 4000,
        "ended_at": NOW - 400,
    }
    return Run(**{**values, **more})


RUNS = [run(0, ended_at=None), *(run(number) for number in range(1, 6))]


class Runs:
    """The API's answers about runs; ``asked`` has the queries."""

    def __init__(self) -> None:
        self.there = list(RUNS)
        self.asked: list[Mapping[str, str]] = []

    def listed(self, request: Any) -> dict[str, Any]:
        self.asked.append(query_of(request))
        if self.asked[-1].get("state") == "failed":
            return listed([])
        return listed([run_item(each, {}, None).model_dump(mode="json") for each in self.there])

    def bests(self, request: Any) -> dict[str, Any]:
        ids = query_of(request)["ids"].split(",")
        self.asked.append({"ids": ",".join(ids)})
        best = {"metric": "loss", "lowest": True, "point": 3, "value": 0.0123456789}
        curve = [1 / (1 + n) for n in range(40)]
        return {"items": [{**best, "run": id_, "curve": curve} for id_ in ids[:3]]}

    def delete(self, request: Any) -> dict[str, Any]:
        id_ = request.url.split("/")[-2]
        self.there = [each for each in self.there if each.id != id_]
        return {"message": "Deleted."}


@pytest.fixture
def runs(page: Any) -> Runs:
    answers = Runs()
    paths: dict[str, Any] = {
        "runs": answers.listed,
        "run-bests": answers.bests,
        "shared-runs": listed([]),
        "runs/schedules": listed([]),
        **{f"runs/{each.id}/record": answers.delete for each in RUNS[1:]},
    }
    shown = {"runs_offered": True, "environments": ["lab", "torch"], "spaces": ["deep"]}
    open_alone(page, "runs.html", answers=paths, **shown)
    page.locator("#list tbody .spark").nth(2).wait_for()
    return answers


def test_the_list_says_what_came_of_each_run(page: Any, runs: Runs) -> None:
    row = page.locator("#list tbody tr").nth(1)
    for text in ("~/work/a folder/train.ipynb", "0.0123457", "loss", "1 \u00d7 v100, 8 GB", "1 h"):
        expect(row).to_contain_text(text)
    expect(row).not_to_contain_text("/home/ada")
    check(page, "runs-alone")
    # Only what can have changed is asked for again.
    runs.asked.clear()
    page.get_by_label("State").select_option("Ended")
    expect(page.locator("#list tbody tr")).to_have_count(6)
    assert runs.asked[0]["state"] == "ended" and "state=ended" in page.url
    page.wait_for_function("() => document.querySelectorAll('.spark').length === 3")
    assert [query["ids"] for query in runs.asked if "ids" in query] == [RUNS[0].id]
    page.get_by_label("State").select_option("With failed points")
    expect(page.locator("#list")).to_contain_text("No runs match these filters.")


def test_several_runs_are_deleted_and_refusals_are_named(page: Any, runs: Runs) -> None:
    expect(page.locator("#chosen")).to_be_hidden()
    page.get_by_label("Select rates-1").check()
    page.get_by_label("Select rates-2").press("Space")
    expect(page.get_by_role("link", name="Compare 2 runs")).to_be_visible()
    assert f"chosen={RUNS[1].id}%2C{RUNS[2].id}" in page.url
    page.get_by_role("button", name="Select all 6 on this page").click()
    expect(page.get_by_role("link", name=re.compile("^Compare"))).to_be_hidden()
    expect(page.locator("#chosen-words")).to_contain_text("At most four runs can be compared.")
    check(page, "runs-chosen")
    page.get_by_role("button", name="Delete 6 runs").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete 6 runs?")
    expect(dialog).to_contain_text("1 run of these has not ended, and will be refused: rates-0.")
    dialog.get_by_role("button", name="Delete 6 runs").click()
    expect(page.locator("#board-toasts")).to_contain_text("5 runs are deleted.")
    refused = page.locator("#refused")
    expect(refused).to_contain_text("1 run was not deleted:")
    expect(refused.get_by_role("listitem")).to_have_text("rates-0: None.")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    expect(page.get_by_label("Select rates-0")).to_be_checked()
    page.get_by_role("button", name="Select none").click()
    expect(page.locator("#chosen")).to_be_hidden()
