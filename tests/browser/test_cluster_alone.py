"""The cluster page by itself, with the answers that it gets: what it looks like at any width."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from clusters import job, node, pool, record, snapshot, waiting
from looks import violations
from pages_alone import open_alone

from portal.dashboard.builder import Builder
from portal.models import scope
from portal.models.cluster.cluster import JobState
from portal.models.cluster.dashboard import page_facts
from portal.models.cluster.history import HistoryPoint, NodeHours
from portal.models.cluster.rights import Rights
from portal.models.person import Person

expect = pytest.importorskip("playwright.sync_api").expect
GRACE = Person(
    name="grace",
    admin=True,
    scopes=frozenset({scope.JOBS_READ, scope.JOBS_MANAGE, scope.NODES_MANAGE, scope.SESSIONS_READ}),
)
LONG = "a-name-that-is-as-long-as-names-of-jobs-are"


RUN = {"id": "r1", "name": "learning-rates"}


def cluster(viewer: str = "grace") -> dict[str, Any]:
    """Return what the API answers about a small cluster with jobs of long names."""
    now = time.time()
    times = {"submit_time": now - 4000, "start_time": now - 3700, "end_time": now + 7100}
    told = snapshot(
        node("gpu01", pool(4, 0, 1), cpus=32, cpus_allocated=24, partitions=("gpu",)),
        node("cpu01", cpus=16, partitions=("cpu",)),
        job(
            "1234567", "barbara", {"gpu01": (0, 1)}, name=LONG, account=LONG, memory=10**6, **times
        ),
        job("1234568", "ada", {}, nodes=("cpu01",), cpus=8, state=JobState.COMPLETING, **times),
        waiting("1234569", "barbara", name=LONG, reason="QOSMaxGRESPerUser", gpus=4),
        at=now,
    )
    sessions = [
        record("s1", "1234567", "barbara", environment=LONG),
        record("s2", "1234568", "ada", work="run", options={"run": RUN}),
    ]
    items = Builder().build(told, sessions, {}, lambda _: None)
    jobs = [
        item.altered(mine=item.user == viewer).model_dump(mode="json")
        for item in items.jobs.values()
    ]
    head = {"stream": "a1", "version": 1, "taken_at": told.taken_at}
    board = {
        **head,
        "summary": items.summary.model_dump(mode="json"),
        "nodes": {name: item.model_dump(mode="json") for name, item in items.nodes.items()},
        "gpus": {key: item.model_dump(mode="json") for key, item in items.gpus.items()},
    }
    return {
        "board": board,
        "changes": {"reset": False, "changes": [], "own": None},
        "jobs": {"items": jobs, "next": None, "total": len(jobs)},
        "cluster": {"control": Rights(jobs=True, nodes=True).model_dump(), "store": {"error": ""}},
    }


def history(*series: tuple[str, str, tuple[float | None, float | None]]) -> dict[str, Any]:
    """Return the API's answers about two minutes of 8 GPUs, with these quantities."""
    now = int(time.time()) // 60 * 60
    begins = now - 120, now - 60
    counts = {"gpus_total": 8, "gpus_unusable": 1, "gpus_allocated": 5, "gpus_busy": 2}
    points = [HistoryPoint(at=at, seconds=60, **counts).model_dump() for at in begins]
    named = [dict(zip(("kind", "name", "values"), one, strict=True)) for one in series]
    return {
        "history": {"items": points, "next": None, "total": 2},
        "history/series": {"at": begins, "seconds": 60, "series": named},
    }


def opened(page: Any, person: Person = GRACE, answers: dict[str, Any] | None = None) -> None:
    open_alone(
        page,
        "cluster.html",
        person=person,
        answers={**cluster(person.name), **history(), **(answers or {})},
        view=None,
        interval=5,
        items=page_facts(),
    )
    page.locator("#jobs tbody tr").nth(2).wait_for()
    expect(page.locator("#nodes-count")).to_have_text("2 nodes")


@pytest.mark.parametrize("collapsed", [False, True])
def test_the_page_is_as_wide_as_its_window(page: Any, collapsed: bool) -> None:
    """The table of jobs becomes cards before its columns are wider than their room."""
    opened(page)
    page.evaluate(
        "on => document.documentElement.toggleAttribute('data-portal-collapsed', on)", collapsed
    )
    widths, looks = {}, {}
    for window in range(320, 1921, 20):
        page.set_viewport_size({"width": window, "height": 700})
        widths[window] = page.evaluate("document.documentElement.scrollWidth")
        row = page.locator("#jobs tbody tr").first
        looks[window] = row.evaluate("row => getComputedStyle(row).display")
    assert {window: width for window, width in widths.items() if width > window} == {}
    # A window of 1200 px has a table, with the side bar too.
    assert (looks[380], looks[1200]) == ("grid", "table-row")


def test_plots_lead_to_the_rows_that_they_count(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    held, limited = ("queue", "cpu/held", (3.0, 1.0)), ("queue", "gpu/limit", (None, 7.0))
    opened(page, answers=history(held, limited, ("wait", "v100", (90.0, None))))
    gpus, queue, waits = (page.locator("#plots canvas").nth(at) for at in range(3))
    words = gpus.get_attribute("aria-label")
    for part in ("busy: last 2,", "idle: last 3,", "free: last 2,", "not available: last 1,"):
        assert part in words
    expect(queue).to_have_attribute("aria-label", re.compile("gpu: a limit is reached: last 7"))
    expect(waits).to_have_attribute("aria-label", re.compile("v100: last 1 min, maximum 1 min"))
    # Nobody measures power here, and no plot says that there is none.
    expect(page.get_by_text("GPU power")).to_be_hidden()
    page.get_by_role("button", name="gpu: a limit is reached rows").click()
    expect(page.locator("#jobs-title")).to_be_focused()
    expect(page.get_by_label("Waits because")).to_have_value("limit")
    expect(page.locator("#jobs-which [aria-pressed=true]")).to_have_text("Waiting")
    wanted = parse_qs(urlsplit([url for url in asked if "/jobs?" in url][-1]).query)
    assert wanted["partition"] == ["gpu"] and wanted["reason"] == ["limit"]
    assert "pending" in wanted["state"][0]
    # Of GPUs, only those of the state stay bright; and what was chosen before is cleared.
    page.get_by_role("button", name="free rows").press("Enter")
    expect(page.locator("#nodes-title")).to_be_focused()
    expect(page.get_by_label("Waits because")).to_have_value("")
    expect(page.locator("#grid .gpu-free.gpu-other")).to_have_count(0)
    expect(page.locator("#grid .gpu-allocated.gpu-other")).to_have_count(2)


def test_a_node_has_its_last_day_and_its_cpus(page: Any) -> None:
    hour = int(time.time()) // 3600 * 3600
    nodes = {
        "gpu01": NodeHours(held=(*[None] * 22, 50.0, 100.0), used=(*[None] * 22, 10.0, 80.0)),
        "cpu01": NodeHours(held=(25.0,) * 24, used=(None,) * 24),
    }
    hours = {
        "at": [hour - 3600 * back for back in range(23, -1, -1)],
        "nodes": {name: node.model_dump() for name, node in nodes.items()},
    }
    opened(page, answers={"history/nodes": hours})
    page.locator("#heat").scroll_into_view_if_needed()
    rows = page.locator("#heat-rows tr")
    expect(rows).to_have_count(1)  # of a node without GPUs, none is used
    expect(rows).to_have_text(re.compile(r"gpu01\s*45 %\s*80 %\s*80 %"))
    strip = rows.locator(".heat-strip")
    box = strip.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 5)
    expect(strip).to_have_attribute("title", re.compile("^gpu01, .*: 80 % GPUs used$"))
    page.get_by_role("button", name="Held by jobs").click()
    expect(rows).to_have_count(2)
    # One tab stop, and arrow keys; a node leads to the grid.
    expect(page.locator("#heat-rows [tabindex='0']")).to_have_text("cpu01")
    page.locator("#heat-rows [tabindex='0']").press("ArrowDown")
    expect(page.locator("#heat-rows :focus")).to_have_text("gpu01")
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_focused()
    expect(page.locator("#panel")).to_contain_text("gpu01")
    page.get_by_label("Partition").select_option("cpu")
    expect(rows.filter(visible=True)).to_have_count(1)
    used = page.locator(".node-head[data-key=gpu01] .node-used")
    expect(used).to_have_attribute("title", "24 of 32 CPUs held")
    assert used.locator("span").evaluate("bar => bar.style.width") == "75%"


def test_jobs_say_what_runs_and_lead_to_their_gpus_and_back(page: Any) -> None:
    opened(page, person=GRACE.model_copy(update={"name": "ada"}))
    cells = page.locator("#jobs .cell-id")
    session, run = (cells.filter(has_text=id_) for id_ in ("1234567", "1234568"))
    assert session.locator(".badge").get_attribute("href") == "/services/portal/sessions/s1"
    expect(session.locator(".badge")).to_contain_text("session")
    expect(run).to_contain_text("learning-rates")
    expect(run.locator(".badge")).to_contain_text("run")
    assert run.locator(".badge").get_attribute("href") == "/services/portal/runs/r1"
    page.get_by_role("button", name="gpu01: GPU 0").click()
    expect(page.locator("#grid [data-key='gpu01/0']")).to_have_attribute("aria-selected", "true")
    panel = page.locator("#panel")
    expect(panel).to_be_focused()
    panel.get_by_role("button", name="1234567").click()
    expect(page.locator("#jobs-title")).to_be_focused()
    expect(page.get_by_label("Search")).to_have_value("1234567")


USE = {
    "job_id": "1234567",
    "seconds": 60,
    "sources": "dcgm,simulated",
    "gpu_memory": [1024, 2048],
    "gpus": {},
}


def test_the_details_of_a_job_show_its_use(page: Any) -> None:
    now = int(time.time())
    parts = [
        {**USE, "began_at": now - 600, "gpu": [10, 20], "memory": [None] * 2, "last_at": now - 480},
        {**USE, "began_at": now - 120, "gpu": [90, 70], "memory": [None] * 2, "last_at": now},
    ]
    opened(page, answers={"jobs/1234567/use": {"parts": parts}, "jobs/1234568/use": {"parts": []}})
    page.get_by_role("button", name="1234567 details").click()
    dialog = page.get_by_role("dialog", name="Job 1234567")
    expect(dialog).to_contain_text(LONG)
    plots = dialog.locator("canvas")
    expect(plots).to_have_count(2)  # no session reports the host's memory
    expect(plots.first).to_have_attribute("aria-label", re.compile("last 70 %, maximum 90 %"))
    expect(plots.last).to_have_attribute("aria-label", re.compile("GPU memory.*last 2 GB"))
    expect(dialog.locator(".portal-simulated")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="1234567 details")).to_be_focused()
    page.get_by_role("button", name="1234568 details").click()
    expect(page.get_by_role("dialog")).to_contain_text("No use was measured")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="1234567 details").click()
    page.get_by_role("dialog").get_by_role("button", name="gpu01: GPU 0").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#grid [data-key='gpu01/0']")).to_have_attribute("aria-selected", "true")


def test_the_use_of_others_is_not_asked_for(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    opened(page, person=Person(name="eve"))
    page.get_by_role("button", name="1234567 details").click()
    expect(page.get_by_role("dialog")).to_contain_text("Job 1234567")
    page.wait_for_timeout(500)
    assert not any(url.endswith("/use") for url in asked)


def test_what_slurm_denies_is_disabled_with_the_reason(page: Any) -> None:
    missing = {"jobs": "Cancelling requires Operator.", "nodes": "Draining requires more."}
    control = Rights(jobs=False, nodes=False, missing=missing).model_dump()
    answers = {"cluster": {"control": control, "store": {"error": ""}}}
    opened(page, answers=answers)
    hold = page.get_by_role("button", name="Hold job 1234569")
    expect(hold).to_be_disabled()
    expect(hold).to_have_attribute("title", missing["jobs"])
    expect(page.locator("#jobs-rights")).to_have_text(missing["jobs"])
    # Sessions are stopped through the Hub, which Slurm's level does not limit.
    expect(page.get_by_role("button", name="Stop job 1234567")).to_be_enabled()
    expect(page.get_by_role("button", name="Cancel job 1234569")).to_be_disabled()
    page.locator(".node-head[data-key=gpu01]").click()
    drain = page.get_by_role("button", name="Drain… gpu01")
    expect(drain).to_be_disabled()
    expect(drain).to_have_attribute("aria-describedby", "panel-rights")
    expect(page.locator("#panel-rights")).to_have_text(missing["nodes"])


def test_a_session_of_another_user_is_stopped_with_a_reason(page: Any) -> None:
    sent: list[Any] = []
    page.on("request", lambda request: sent.append((request.method, request.post_data_json)))
    opened(page, answers={"jobs/1234567/cancel": {"message": "It is being stopped."}})
    page.get_by_role("button", name="Stop job 1234567").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    assert dialog.is_visible() and posted(sent) == [], "nothing is sent without a reason"
    dialog.get_by_label("Reason, which barbara reads").fill("gpu01 is repaired")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#board-status")).to_have_text("It is being stopped.")
    assert posted(sent) == [{"reason": "gpu01 is repaired"}]


def posted(requests: list[Any]) -> list[Any]:
    return [body for method, body in requests if method == "POST"]
