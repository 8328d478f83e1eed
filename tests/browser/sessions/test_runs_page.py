"""The pages of runs in a browser: the list with its bars, and a run with its points."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, without_session
from in_sight import SCREEN, look
from looks import check
from remembered import stored
from sign_in import sign_in
from sqlalchemy import delete

from portal.models.cluster.job_use import JobUse
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.run_logged import Logged
from portal.models.session.run_output import PointOutput, StoredOutput
from portal.models.session.search import Search
from portal.store import Store
from portal.store.site.job_use import job_use
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.logged import RunLoggedTable
from portal.work.run.tables.outputs import RunOutputTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.searches import RunSearchTable
from portal.work.run.tables.shares import RunShareTable

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

ID = "9e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
OLD = "8e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SEARCH = {
    "parameters": [
        {"name": "lr", "kind": "float", "low": 1e-5, "high": 0.1, "log": True},
        {"name": "opt", "kind": "choice", "choices": ["adam", "<b>sgd</b>"]},
    ],
    "metric": "loss",
    "direction": "minimize",
}
HOSTILE = "<img src=x onerror=window.hacked=1>"
DOT = (  # a PNG of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CELLS = [
    *(
        {"kind": "code", "cell": n, "state": "done", "source": f"step({n})\n" * 20}
        for n in (1, 2, 3)
    ),
    {"kind": "code", "cell": 4, "state": "failed", "source": "check(rate)", "output": HOSTILE},
    {"kind": "text", "state": "done", "source": "# After it"},
    {"kind": "code", "cell": 5, "state": "waiting", "source": "report()"},
]


@pytest.fixture(scope="module", autouse=True)
def runs(demo: Any) -> Iterator[None]:
    """Two runs of ada's, as the service keeps them: one of 200 points, and one that has ended."""

    def run(id_: str, name: str, **more: Any) -> Run:
        values = {
            "source": "work/train.ipynb",
            "folder": f"/home/ada/projects/runs/{name}",
            "points": 200,
            "at_once": 20,
            "user": "ada",
            "server": f"run-{id_.replace('-', '')[:20]}",
            "environment": "jupyterlab",
            "code_digest": f"sha256:{'0' * 64}",
            "created_at": time.time(),
        }
        return Run(**{**values, "id": id_, "name": name, **more})

    def point(number: int, state: str, **more: Any) -> tuple[tuple[str, str], RunPoint]:
        now = time.time()
        values = {"attempt": 1, "job": f"77_{number}", "started_at": now - 60, "cells": 9}
        ended = {} if state == "running" else {"ended_at": now - number}
        return ("ada", ID), RunPoint(
            number=number, state=PointState(state), **{**values, **ended, **more}
        )

    async def keep(store: Store) -> None:
        await store.table(RunTable).add_run(run(ID, "rates", after=OLD, resumes=5))
        await store.table(RunSearchTable).add_search(("ada", ID), Search.model_validate(SEARCH))
        await store.table(RunSearchTable).choose(("ada", ID), 9, {"lr": 0.0123456789, "opt": 1})
        await store.table(RunCurveTable).save(
            [
                (("ada", ID), n, 1, {"loss": [(step, 1 / (n + step + 1)) for step in range(20)]})
                for n in range(10)
            ]
        )
        old = {"points": 3, "created_at": 5.0, "ended_at": 9.0, "version": 3}
        origin = {"id": ID, "user": "ada", "folder": "/home/ada/projects/runs/rates"}
        await store.table(RunTable).add_run(run(OLD, "before", **old, origin=origin))
        await store.table(RunPointTable).save(
            [
                *(
                    point(
                        n,
                        "succeeded",
                        metrics={"loss": 1 / (1 + n), "step": 19},
                        parameters={"rate": 10.0 ** -(n % 3), "kind": HOSTILE},
                    )
                    for n in range(10)
                ),
                point(10, "failed", cell=4, message=f"ValueError: {HOSTILE} is no rate."),
                point(11, "running", cell=2, metrics={"loss": 7.5}),
            ]
        )
        output = PointOutput.model_validate({"cells": CELLS, "left_out": 4})
        saved = StoredOutput(attempt=1, at=time.time(), output=output)
        await store.table(RunOutputTable).save(("ada", ID), 10, saved)
        table = [["class", "share"], [HOSTILE, 0.5], *[["other", n] for n in range(60)]]
        logged = Logged.model_validate(
            {"images": {"loss curve": DOT}, "tables": {"classes": table}}
        )
        await store.table(RunLoggedTable).save(("ada", ID), 2, 1, logged)
        drift = ("numpy is 2.1.0 instead of 2.0.2.", "The node is gpu02 instead of gpu01.")
        done = RunPoint(number=0, state=PointState.SUCCEEDED, attempt=1, drift=drift)
        await store.table(RunPointTable).save([(("ada", OLD), done)])
        began = int(time.time()) - 60
        given = {"began_at": began, "seconds": 60, "sources": "simulated", "last_at": began + 180}
        await store.job_use.save(
            [JobUse(job_id=f"77_{n}", gpu=(10 * n, 50, 60), **given) for n in range(10)]
        )

    async def drop(store: Store) -> None:
        await store.table(RunShareTable).unshare("ada", OLD, "grace")
        for id_ in (ID, OLD):
            await store.table(RunTable).remove("ada", id_)
            await store.table(RunSearchTable).remove(("ada", id_))
        measured = delete(job_use).where(job_use.c.job_id.startswith("77_"))
        await store.database.run(lambda to: to.execute(measured), write=True)

    stored(demo, keep)
    yield
    stored(demo, drop)


def test_the_list_leads_to_a_run(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/sessions")
    page.get_by_role("navigation").get_by_role("link", name="Runs", exact=True).click()
    row = page.locator(f"#list tr[data-key='{ID}']")
    expect(row).to_contain_text("10 succeeded, 1 failed, 1 running, 188 waiting")
    expect(row).to_contain_text("work/train.ipynb")
    expect(page.locator("#list tbody tr").first).to_contain_text("rates")
    page.locator("#list").get_by_role("button", name="Name").click()
    expect(page.locator("#list tbody tr").first).to_contain_text("before")
    check(page, "runs")
    row.get_by_role("link", name="rates").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rates")
    facts = page.locator("#run .facts")
    expect(facts).to_contain_text("minimize loss by lr, opt")
    expect(facts).to_contain_text("point 9: loss 0.1 with lr = 0.0123457, opt = <b>sgd</b>")


# Address of each page, and what most people come for: test_first_screen.py has the other pages.
FIRST_SCREENS = {
    "runs": ("runs", ("role=link[name='New run']", "#list-title", "#list tbody tr >> nth=1")),
    "run": (
        f"runs/{ID}",
        (
            "h1",
            "role=button[name='Stop run']",
            "#run summary",
            "#best",
            "#best-plot .u-over",
            "#views",
            "#points-state",
            "#list thead",
            "#list tbody tr >> nth=0",
        ),
    ),
    "runs-compare": (
        f"runs/compare?a={ID}&b={OLD}",
        ("h1", "#curves .u-over", "#comparison table >> nth=0", "#comparison tbody tr >> nth=0"),
    ),
}


@pytest.mark.parametrize("name", FIRST_SCREENS)
def test_what_most_people_come_for_is_in_sight(demo: Any, page: Any, name: str) -> None:
    address, selectors = FIRST_SCREENS[name]
    page.set_viewport_size(SCREEN)
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/{address}")
    look(page, name, selectors)


def test_the_points_are_sorted_and_filtered(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    expect(page.locator("#run")).to_contain_text("points resume after it, at most 5 times")
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("succeeded")
    page.locator("#list").get_by_role("button", name="loss").click()
    expect(rows.first).to_have_attribute("data-key", "9")
    page.locator("#list").get_by_role("button", name="loss").click()
    expect(rows.first).to_have_attribute("data-key", "11")
    assert "sort=-metric%3Aloss" in page.url
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#list-pager")).to_contain_text("101\u2013200 of 200")
    page.get_by_label("State").select_option("failed")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text(f"ValueError: {HOSTILE} is no rate.")
    expect(rows.first).to_contain_text("4 of 9")
    assert page.evaluate("window.hacked") is None
    check(page, "run")


def test_a_point_is_opened(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    page.locator("#list").get_by_role("button", name="rate").click()
    expect(page.locator("#list tbody tr").first).to_have_attribute("data-key", "2")
    button = page.get_by_role("button", name="Point 2", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="Point 2", exact=True)
    expect(panel).to_be_focused()
    expect(panel).to_contain_text("rate0.01")
    expect(panel).to_contain_text("loss0.333333")
    assert "point=2" in page.url
    check(page, "run-point")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(button).to_be_focused()
    page.goto(f"{demo.url}/services/portal/runs/{ID}?point=10")
    expect(page.get_by_role("region", name="Point 10")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hacked") is None


def test_curves_and_parallel_coordinates(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    best = page.locator("#best")
    expect(best).to_contain_text("Point 9 with loss 0.1")
    page.get_by_label("Best is").select_option("highest")
    expect(best).to_contain_text("Point 11 with loss 7.5")
    assert "goal=highest" in page.url
    page.get_by_role("button", name="Curves", exact=True).click()
    plot = page.get_by_role("img", name=re.compile("^loss: 10 lines"))
    expect(plot).to_be_visible()
    page.locator("#view-curves").get_by_label("Highlight").select_option("Point 3")
    expect(page.locator("#view-curves")).to_contain_text("Point 3: 0.0434783 at step 19")
    check(page, "run-curves")
    page.get_by_role("button", name="Parallel coordinates").click()
    lines = page.locator("#view-parallel .parallel-lines path")
    expect(lines).to_have_count(11)
    page.get_by_text("Filter lines").click()
    page.get_by_label("rate, maximum").fill("0.5")
    expect(page.locator("#view-parallel")).to_contain_text("6 of 11 points within the limits")
    expect(page.locator("#view-parallel .parallel-faint")).to_have_count(5)
    page.locator("#view-parallel").get_by_label("Highlight").select_option("Point 4")
    expect(page.locator("#view-parallel")).to_contain_text("Point 4: rate 0.1")
    check(page, "run-parallel")
    page.locator("#view-parallel").get_by_role("button", name="Open point").press("Enter")
    expect(page.get_by_role("region", name="Point 4", exact=True)).to_be_focused()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the points: CSV").click()
    assert download.value.suggested_filename == "rates-points.csv"


def test_the_best_point_comes_first(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    best = page.get_by_role("region", name="Best point")
    plot = best.get_by_role("img", name=re.compile("^Best by loss: 10 lines"))
    expect(plot).to_be_visible()
    assert best.get_by_label("Metric").locator("option").all_inner_texts() == ["loss"], "no step"
    tops = [page.locator(part).bounding_box()["y"] for part in ("#best-part", "#list")]
    assert tops == sorted(tops)
    expect(page.locator("#run .facts")).to_be_hidden()
    page.get_by_text("Details", exact=True).click()
    expect(page.locator("#run .facts")).to_contain_text("~/projects/runs/rates")
    use = page.get_by_role("img", name=re.compile("^GPU utilisation of a point"))
    expect(use).to_have_accessible_name(
        re.compile("10th percentile: .*; mean of 10 points: last 60 %")
    )
    page.locator("#list").get_by_role("button", name="loss").click()
    row = page.locator("#list tr[data-key='9']")
    expect(row).to_have_class(re.compile("row-best"))
    expect(page.locator("#list .point-best:visible")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="step")).to_have_count(0)
    page.get_by_label("Best is").select_option("highest")
    expect(page.locator("#list tr[data-key='11']")).to_have_count(1)
    expect(row).not_to_have_class(re.compile("row-best"))
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    expect(page.get_by_label("Best is")).to_have_value("lowest")  # its search minimizes


def test_columns_are_chosen_and_stay_chosen(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    heads = page.locator("#list thead th")
    expect(heads.nth(1)).to_have_text("State")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Job", exact=True).uncheck()
    page.get_by_role("button", name="Pin loss").click()
    for _ in range(2):
        expect(heads.nth(1)).to_have_text("loss")
        expect(heads.nth(1)).to_have_css("position", "sticky")
        expect(page.get_by_role("columnheader", name="Job")).to_have_count(0)
        page.reload()
    page.get_by_text("Columns", exact=True).click()
    pin = page.get_by_role("button", name="Pin loss")
    expect(pin).to_have_attribute("aria-pressed", "true")
    check(page, "run-columns")
    pin.click()
    expect(heads.nth(1)).to_have_text("State")


def test_points_are_filtered_by_their_values(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    field = page.get_by_role("searchbox", name="Values")
    field.fill("rate<0.1 loss<0.2")
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(2)
    assert "where=rate" in page.url
    field.fill("rate<")
    problem = page.locator("#where-problem")
    expect(problem).to_contain_text("'rate<' is not a condition. Enter a name")
    expect(rows).to_have_count(2)
    field.fill("loss>7")
    expect(problem).to_be_empty()
    expect(rows).to_have_count(1)


def test_curves_are_smoothed_and_named(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}?view=curves")
    view = page.locator("#view-curves")
    expect(view.get_by_role("listitem")).to_have_count(10)
    expect(view.get_by_role("listitem").nth(9)).to_contain_text("Point 9 rate 1 · best")
    view.locator(".u-over").scroll_into_view_if_needed()
    box = view.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] - 20)
    tip = view.locator(".plot-tip")
    expect(tip).to_contain_text(re.compile(r"Point \d: [\d.]+ at step \d+rate"))
    before = view.get_by_role("img").screenshot()
    view.get_by_label("Smoothing").fill("0.9")
    expect(view.get_by_role("status").first).to_contain_text("0.9")
    assert view.get_by_role("img").screenshot() != before
    view.get_by_label("Logarithmic steps").check()
    expect(view.get_by_role("img")).to_be_visible()
    view.get_by_role("button", name="Point 3").focus()
    expect(view).to_contain_text("Point 3: 0.0434783 at step 19")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Point 3", exact=True)).to_be_focused()


def test_a_metric_by_parameters(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}?view=scatter")
    view = page.locator("#view-scatter")
    view.get_by_label("Parameter").select_option("rate")
    expect(view.get_by_role("img", name="loss by rate: 11 points")).to_be_visible()
    dots = view.locator("svg circle")
    expect(dots).to_have_count(11)  # ten points, and a ring around the best
    view.get_by_label("Highlight").select_option("Point 4")
    expect(view).to_contain_text("Point 4: loss 0.2 with")
    expect(dots).to_have_count(12)
    check(page, "run-scatter")
    page.get_by_role("button", name="Heat map").click()
    view = page.locator("#view-heat")
    view.get_by_label("Across").select_option("rate")
    view.get_by_label("Down").select_option("rate")
    expect(view).to_contain_text("Choose two different parameters.")
    view.get_by_label("Down").select_option("kind")
    expect(view.get_by_role("img", name=re.compile("^loss by rate and kind"))).to_be_visible()
    expect(view.locator("svg[role='img'] rect")).to_have_count(3)
    view.get_by_label("Cell", exact=True).select_option(index=1)
    expect(view).to_contain_text(re.compile("lowest loss of [34] points 0.1"))
    check(page, "run-heat")
    view.get_by_role("button", name="Open point").press("Enter")
    expect(page.get_by_role("region", name="Point 9", exact=True)).to_be_focused()


def test_pictures_and_tables_of_a_point(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}?point=2")
    panel = page.get_by_role("region", name="Point 2", exact=True)
    picture = panel.get_by_role("img", name="loss curve")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    table = panel.get_by_role("table").filter(has_text=HOSTILE)  # not the legend of a plot
    expect(table.get_by_role("row")).to_have_count(51)
    panel.get_by_role("button", name="Show all 61 rows").click()
    expect(table.get_by_role("row")).to_have_count(62)
    check(page, "run-logged")
    assert page.evaluate("window.hacked") is None


def test_a_run_without_metrics_says_how_to_log_them(demo: Any, page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{OLD}")
    part = page.get_by_role("region", name="Metrics")
    expect(part).to_contain_text("from portal_metrics import log")
    part.get_by_role("button", name="Copy the lines").click()
    expect(page.locator("#board-toasts")).to_contain_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "from portal_metrics import log\nlog(loss=0.3, step=7)"
    expect(page.locator("#best-part")).to_be_hidden()
    check(page, "run-without-metrics")


def test_a_failed_point_opens_at_its_failing_cell(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}?state=failed")
    page.get_by_role("button", name="Point 10", exact=True).click()
    panel = page.get_by_role("region", name="Point 10", exact=True)
    output = page.get_by_role("region", name="Output", exact=True)
    cells = output.get_by_role("listitem")
    expect(cells).to_have_count(6)
    failed = cells.filter(has_text="Cell 4 failed")
    expect(failed).to_be_focused()
    expect(failed).to_be_in_viewport()
    expect(failed).to_contain_text(HOSTILE)
    expect(panel).to_contain_text("4 cells farther away are left out.")
    address = panel.get_by_role("link", name="Open in JupyterLab").get_attribute("href")
    file = "path=%2Fhome%2Fada%2Fprojects%2Fruns%2Frates%2F0010%2Foutput.ipynb"
    assert address.endswith(f"/user/ada/portal/runs/open?{file}")
    with page.expect_download() as download:
        panel.get_by_role("button", name="Download text").click()
    assert download.value.suggested_filename == "rates-10.txt"
    check(page, "run-output")
    assert page.evaluate("window.hacked") is None


def test_the_output_of_a_running_point_is_awaited(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}?point=11")
    panel = page.get_by_role("region", name="Point 11", exact=True)
    expect(panel).to_contain_text("Waiting for the output")
    expect(panel.get_by_role("button", name="Download text")).to_be_hidden()


def test_a_run_is_stopped_after_a_question(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    page.get_by_role("button", name="Stop run").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Stop “rates”?")
    with page.expect_response(re.compile(f"/runs/{ID}$")) as answer:
        dialog.get_by_role("button", name="Stop run").click()
    assert answer.value.request.method == "DELETE"
    page.goto(f"{demo.url}/services/portal/runs/{OLD}")
    expect(page.locator("#list")).to_contain_text("waiting")
    expect(page.get_by_role("button", name="Stop run")).to_have_count(0)


def test_a_chain_is_repeated_on_a_schedule(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
    link = page.locator("#run").get_by_role("link", name="before")
    expect(link).to_have_attribute("href", re.compile(f"/runs/{OLD}$"))
    page.get_by_role("button", name="More actions for rates").click()
    page.get_by_role("button", name="Repeat on a schedule…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The whole chain that ends with this run is repeated")
    expect(dialog.get_by_label("Time of day")).to_be_focused()
    check(page, "run-schedule")
    for day in ("Sat", "Sun"):
        dialog.get_by_label(day).uncheck()
    dialog.get_by_label("Time of day").fill("03:15")
    dialog.get_by_label("Last day").fill("2020-01-01")
    dialog.get_by_role("button", name="Repeat run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("would not start a run by 2020-01-01.")
    dialog.get_by_label("Last day").fill("")
    dialog.get_by_role("button", name="Repeat run").click()
    expect(page.locator("#board-toasts")).to_contain_text("Schedule created. Next start:")
    page.goto(f"{demo.url}/services/portal/runs")
    row = page.locator("#schedules tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("03:15 Mon, Tue, Wed, Thu, Fri")
    expect(row).to_contain_text("chain: before → rates")
    check(page, "runs-schedules")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_role("button", name="Pause")).to_be_visible()
    row.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete schedule").click()
    expect(page.locator("#schedules-part")).to_be_hidden()


def test_others_have_no_such_run(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "grace")
    assert page.goto(f"{demo.url}/services/portal/runs/{ID}").status == 404
    page.goto(f"{demo.url}/services/portal/runs")
    expect(page.locator("#list")).to_contain_text("You have no runs yet.")


def test_a_new_run_launches_a_session_and_comes_back(demo: Any, page: Any) -> None:
    """Of a user without one. From a session that runs: test_job_kernels.py."""
    for _ in without_session(Person(demo.url, "grace")):
        sign_in(page, demo.url, "grace")
        page.goto(f"{demo.url}/services/portal/runs")
        page.get_by_role("link", name="New run").click()
        page.get_by_role("link", name="Launch a session").click()
        page.wait_for_url("**/hub/spawn*")
        page.get_by_role("radio", name="Python (virtual environment)").check(force=True)
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url("**/services/portal/runs/new", timeout=180_000)
        source = page.get_by_label("Notebook or script")
        expect(source).to_be_focused(timeout=30_000)
        source.fill("~/gone.py")
        alert = page.get_by_role("alert").filter(has_text="There is no file")
        expect(alert).to_have_text(re.compile("/gone.py'. Check the path.$"))
        page.goto("about:blank")


def test_a_run_that_has_ended_runs_again_and_is_shared(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{OLD}")
    expect(page.locator("#run")).to_contain_text("jupyterlab, version 3")
    page.get_by_text("2 differences").click()
    expect(page.locator(".run-drift")).to_contain_text("numpy is 2.1.0 instead of 2.0.2. (1 point)")
    page.get_by_role("button", name="Run failed points again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Run 2 points of “before” again?")
    dialog.get_by_label("Time limit of each point").fill("soon")
    dialog.get_by_role("button", name="Run again").click()
    expect(page.locator("#board-toasts")).to_contain_text("'soon' is not")
    page.get_by_role("button", name="More actions for before").click()
    page.get_by_role("button", name="Repeat exactly").click()
    expect(dialog).to_contain_text("Repeat “before” as “before-2”?")
    dialog.get_by_role("button", name="Back").click()
    shares = page.locator("#shares")
    expect(shares).to_contain_text("Only you see this run.")
    shares.get_by_role("button", name="Share run").click()
    dialog.get_by_label("User name").fill("grace")
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(shares.get_by_role("button", name="Stop sharing with grace")).to_be_visible()
    check(page, "run-ended")


def test_a_shared_run_is_for_reading(demo: Any, page: Any) -> None:
    async def share(store: Store) -> None:
        await store.table(RunShareTable).share("ada", OLD, "grace")

    stored(demo, share)
    sign_in(page, demo.url, "grace")
    page.goto(f"{demo.url}/services/portal/runs")
    row = page.locator(f"#shared tr[data-key='ada/{OLD}']")
    expect(row).to_contain_text("ada")
    check(page, "runs-shared")
    row.get_by_role("link", name="before").click()
    assert page.url.endswith(f"/runs/{OLD}?owner=ada")
    page.get_by_role("button", name="Repeat exactly").click()
    dialog = page.locator("dialog.ask")
    expect(dialog).to_contain_text("A new run executes the code of ada, with all that you may do")
    dialog.get_by_role("button", name="Back").click()
    for name in ("Run failed points again", "Share run", "Stop run"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_the_end_of_a_run_is_told_on_any_page(demo: Any, page: Any) -> None:
    """The browser's own notification is played; it is near the end, since the run ends."""
    page.add_init_script("""if (location.protocol !== "about:") {
      window.shown = [];
      window.Notification = class {
        static permission = "granted";
        constructor(title, { body }) { window.shown.push(`${title} | ${body}`); }
        close() {}
      };
      localStorage.setItem("portal-notices", '{"on": true}');
    }""")
    sign_in(page, demo.url, "ada")
    with page.expect_response(re.compile(r"/api/v1/runs\?limit=50$")):
        page.goto(f"{demo.url}/services/portal/runs/{OLD}")

    async def end(store: Store) -> None:
        await store.table(RunTable).end("ada", ID, time.time())

    stored(demo, end)
    # The page's rules for scripts leave no room for wait_for_function.
    (told,) = wait_until("it is told", lambda: page.evaluate("window.shown"), 120)
    assert told.startswith("Your run has ended | rates: 10 of 200 succeeded, 1 failed"), told


def test_runs_are_compared_and_deleted(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.get_by_label("Select rates").check()
    expect(page.locator("#chosen-words")).to_contain_text("Choose another run")
    page.get_by_label("Select before").check()
    page.get_by_role("link", name="Compare 2 runs").click()
    differences = page.get_by_role("table", name="Differences")
    expect(differences).to_contain_text(HOSTILE)
    best = page.get_by_role("table", name="Best points")
    expect(best).to_contain_text("loss, lowest")
    expect(best).to_contain_text("0.1 point 9")
    plot = page.get_by_role("img", name=re.compile("^loss: "))
    expect(plot).to_be_visible()
    assert plot.bounding_box()["y"] < best.bounding_box()["y"]
    page.get_by_label("Best is").select_option("highest")
    expect(best).to_contain_text("loss, highest")
    expect(best).to_contain_text("7.5 point 11")
    expect(best).not_to_contain_text("lowest")
    assert page.evaluate("window.hacked") is None
    check(page, "runs-compare")
    page.go_back()
    expect(page.get_by_label("Select rates")).to_be_checked()
    expect(page.get_by_label("Select before")).to_be_checked()
    expect(page.get_by_role("link", name="Compare 2 runs")).to_be_visible()
    page.goto(f"{demo.url}/services/portal/runs/{OLD}")
    page.get_by_role("button", name="More actions for before").click()
    page.get_by_role("button", name="Delete run").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its files stay: ~/projects/runs/before")
    dialog.get_by_role("button", name="Delete run").click()
    page.wait_for_url(re.compile("/runs$"))
    expect(page.locator("#list")).to_contain_text("rates")
    expect(page.locator("#list")).not_to_contain_text("before")
