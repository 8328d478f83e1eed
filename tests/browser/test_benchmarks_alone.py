"""The page of benchmarks by itself, with the answers that it gets: results, a plot of one, runs and
data sheets, at any width."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from looks import check
from pages_alone import open_alone

from portal.models.person import Person
from portal.work.benchmarks.endpoints import BenchmarkRuns, OwnRun, ResultItem
from portal.work.benchmarks.results import SCRIPTS
from portal.work.benchmarks.specifications import specifications
from portal.work.benchmarks.tables import BenchmarkRun

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

HOSTILE = "<img src=x onerror=window.hacked=1>"


def a_result(**more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "benchmark": "throughput",
        "name": "training from memory",
        "value": 2345.678,
        "unit": "images/s",
        "conditions": "precision=fp16, ranks=2, batch=128, pixels=224",
        "environment": "pytorch",
        "version": 3,
        "gpu_type": "v100",
        "gpus": 2,
        "nodes": "gpu01",
        "simulated": False,
        "share": 0.23,
        "fall": 0.0,
        "at": 1_700_000_000.0,
    }
    return ResultItem(**{**values, **more}).model_dump(mode="json")


RESULTS = [
    a_result(),
    a_result(version=2, value=1172.839, fall=0.14, share=0.115),
    a_result(gpu_type="t4", share=None, simulated=True, nodes=HOSTILE),
    a_result(
        benchmark="storage", name="read 4K depth 32", value=75.236, unit="MB/s", gpu_type="",
        gpus=0, share=None, conditions="folder=scratch, pattern=4K depth 32, direct=0",
    ),
]  # fmt: skip
RUNS = BenchmarkRuns(
    items=(
        BenchmarkRun(
            user="ada", run="r1", name="throughput", environment="pytorch", version=3,
            added_at=3.0, renew=True,
        ),
        BenchmarkRun(
            user="ada", run="r2", name="throughput-2", environment="pytorch", origin="r1",
            added_at=2.0, taken_at=2.5, falls=("training from memory: 14 % worse.",),
        ),
        BenchmarkRun(
            user="grace", run="r3", name="storage", environment="python", added_at=1.0,
            taken_at=1.5, problem="The run executed another 'storage'.",
        ),
    ),
    own=(OwnRun(id="r4", name="collectives", environment="pytorch", ended=False),),
)  # fmt: skip


class Answers:
    """The API's answers; ``asked`` has the queries for results, ``put`` what was added."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.put: list[tuple[str, Any]] = []

    def results(self, request: Any) -> dict[str, Any]:
        query = {name: each[0] for name, each in parse_qs(urlsplit(request.url).query).items()}
        self.asked.append(query)
        names = ("benchmark", "environment", "name", "conditions")
        wanted = {name: query[name] for name in names if name in query}
        items = [row for row in RESULTS if all(row[name] == wanted[name] for name in wanted)]
        return {"items": items, "next": None, "total": len(items)}

    def add(self, request: Any) -> dict[str, Any]:
        self.put.append((request.method, json.loads(request.post_data or "null")))
        return {"message": "The results are shown once the run has ended."}


@pytest.fixture
def answers() -> Answers:
    return Answers()


def opened(page: Any, answers: Answers, scopes: tuple[str, ...] = ()) -> None:
    known = {
        "benchmarks": answers.results,
        "benchmarks/runs": lambda request: RUNS.model_dump(mode="json"),
        "benchmarks/runs/r4": answers.add,
        "benchmarks/runs/r1": answers.add,
    }
    person = Person(name="ada", scopes=frozenset(scopes))
    gpus = [entry.model_dump() for entry in specifications()]
    open_alone(
        page, "benchmarks.html", answers=known, person=person, benchmarks=SCRIPTS,
        environments=["python", "pytorch"], gpus=gpus,
    )  # fmt: skip
    page.locator("#list tbody tr").first.wait_for()


def test_results_stand_beside_the_data_sheets(page: Any, answers: Answers) -> None:
    opened(page, answers)
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("2,346 images/s")
    expect(rows.nth(0)).to_contain_text("23 %")
    expect(rows.nth(1)).to_contain_text("14 % worse")
    expect(rows.nth(2)).to_contain_text("simulated")
    expect(rows.nth(3).locator("[data-head=Hardware]")).to_have_text("\N{EN DASH} gpu01")
    page.get_by_text(f"{len(specifications())} GPUs", exact=True).click()
    sheets = page.get_by_role("table", name="GPUs by their data sheets")
    h100 = sheets.get_by_role("row").filter(has_text="NVIDIA H100 SXM5")
    expect(h100).to_contain_text("3,350 GB/s")
    expect(h100.locator("[data-head=FP16]")).to_have_text("989.5")
    # What only curators do is not there for others, nor asked for.
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    check(page, "benchmarks-alone")


def test_a_result_is_plotted_wherever_it_was_measured(page: Any, answers: Answers) -> None:
    opened(page, answers)
    plot = page.locator("#plot-part")
    expect(plot).to_contain_text("Training from memory in images/s")
    expect(plot.locator("dt")).to_have_count(3)
    where = "pytorch, version 2, 2 \N{MULTIPLICATION SIGN} v100, gpu01"
    expect(plot.locator("dt").nth(1)).to_have_text(where)
    widths = plot.locator(".level-in").evaluate_all("each => each.map(bar => bar.style.width)")
    assert widths == ["100%", "50%", "100%"]
    button = page.get_by_role("button", name="Plot read 4K depth 32")
    button.focus()
    page.keyboard.press("Enter")
    expect(plot).to_contain_text("Read 4K depth 32 in MB/s")
    expect(plot.locator("dt")).to_have_count(1)
    page.get_by_label("Benchmark", exact=True).select_option("storage")
    expect(page.locator("#list-count")).to_have_text("1 result")
    assert "benchmark=storage" in page.url


def test_a_curator_adds_a_run(page: Any, answers: Answers) -> None:
    opened(page, answers, ("custom:portal:environments:manage",))
    rows = page.locator("#runs tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("waits for its end")
    expect(rows.nth(1)).to_contain_text("has become worse")
    expect(rows.nth(1)).to_contain_text("repeats another run")
    expect(rows.nth(2)).to_contain_text("The run executed another 'storage'.")
    expect(page.get_by_label("Run of yours")).to_contain_text("collectives in pytorch, not ended")
    page.get_by_label("Repeat it with each new version").check()
    check(page, "benchmarks-curator")
    page.get_by_role("button", name="Add results").click()
    expect(page.locator("#board-toasts")).to_contain_text("once the run has ended")
    assert answers.put == [("PUT", {"renew": True})]
    page.get_by_role("button", name="Do not renew throughput").click()
    expect(page.locator("#board-toasts")).to_contain_text("once the run has ended")
    assert answers.put[1:] == [("PUT", {"renew": False})]
