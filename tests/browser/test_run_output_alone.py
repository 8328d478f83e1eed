"""Ranks on the page of a run, by itself: the log of each is chosen and asked for, and the use of
their GPUs is on one plot."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from looks import check
from pages_alone import open_alone

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

NOW = 1_800_000_000
SHOW = """async ([title, point]) => {
  const { src } = document.querySelector("script[src*='run/compare']");
  await import(src.replace("compare", title === "Output" ? "output" : "point_use"));
  const { sections } = await import(src.replace("compare", "point"));
  const place = (window.place ??= document.createElement("div"));
  const box = document.getElementById("comparison");
  box.replaceChildren(place);
  box.hidden = false;
  const folder = "/home/ada/runs/ddp";
  const run = { id: "x", name: "ddp", mine: true, source: "ddp.py", folder, ended_at: null };
  sections.find((section) => section.title === title).show(place, point, run);
}"""


class Job:
    """The job of a point, which sends the log of the rank that was asked for before."""

    ranks, asked, sent = 4, 0, 0

    def answer(self, request: Any) -> dict[str, Any]:
        self.sent = self.asked
        self.asked = int(parse_qs(urlsplit(request.url).query).get("rank", ["0"])[0])
        log = f"loss of rank {self.sent}\n"
        output = {"log": log, "cells": [], "cut": True, "left_out": 0}
        numbers = {"rank": self.sent, "ranks": self.ranks}
        opener = "/user/ada/portal/runs/open"
        return {"output": {**output, **numbers}, "at": 5.0, "kernel": None, "opener": opener}


@pytest.fixture
def page(browser: Any) -> Any:
    page = browser.new_page(bypass_csp=True)  # the test's own script imports the part of a page
    yield page
    page.close()


def opened(page: Any, job: Job) -> Any:
    open_alone(page, "runs_compare.html", answers={"runs/x/points/0/output": job.answer})
    page.evaluate(SHOW, ["Output", {"number": 0, "state": "running", "attempt": 2}])
    return page.get_by_role("region", name="Output", exact=True)


def test_the_log_of_each_rank_is_shown(page: Any) -> None:
    log = opened(page, Job())
    expect(log).to_have_text("[The beginning is in output.log.]\nloss of rank 0")
    rank = page.get_by_label("Rank", exact=True)
    expect(rank.locator("option")).to_have_text([f"Rank {number}" for number in range(4)])
    rank.select_option("Rank 3")
    expect(page.locator("#comparison")).to_contain_text("Waiting for the output")
    expect(log).to_be_hidden()
    expect(log).to_have_text("[The beginning is in rank-3.log.]\nloss of rank 3")
    link = page.get_by_role("link", name="Open in JupyterLab").get_attribute("href")
    assert link.endswith("path=%2Fhome%2Fada%2Fruns%2Fddp%2F0000-2%2Frank-3.log")
    check(page, "run-output-ranks")
    rank.select_option("Rank 0")
    expect(log).to_contain_text("loss of rank 0")


def test_one_rank_is_no_choice(page: Any) -> None:
    job = Job()
    job.ranks = 0
    expect(opened(page, job)).to_contain_text("loss of rank 0")
    expect(page.get_by_label("Rank", exact=True)).to_be_hidden()


def test_the_log_that_was_kept_is_rank_0_s(page: Any) -> None:
    job = Job()
    log = opened(page, job)
    expect(log).to_be_visible()
    page.get_by_label("Rank", exact=True).select_option("Rank 2")
    expect(log).to_contain_text("loss of rank 2")
    kept = {**job.answer(type("Request", (), {"url": "x"})), "at": 9.0}
    kept["output"] |= {"rank": 0, "log": "Rank 3 failed first."}
    page.route("**/points/0/output*", lambda route: route.fulfill(json=kept))
    page.evaluate(SHOW, ["Output", {"number": 0, "state": "failed", "attempt": 2}])
    expect(page.locator("#comparison")).to_contain_text("The output is only in the run")
    expect(log).to_be_hidden()
    page.get_by_label("Rank", exact=True).select_option("Rank 0")
    expect(log).to_contain_text("Rank 3 failed first.")


def test_the_gpus_of_all_ranks_are_on_one_plot(page: Any) -> None:
    gpus = {"gpu02:0": [20, 30], "gpu01:10": [70, None], "gpu01:2": [90, 80]}
    part = {"job_id": "7_0", "began_at": NOW, "seconds": 60, "last_at": NOW + 120.0}
    part |= {"sources": "dcgm"}
    part |= {"gpu": [60, 55], "gpu_memory": [None, None], "memory": [None, None], "gpus": gpus}
    open_alone(page, "runs_compare.html", answers={"runs/x/points/0/use": {"parts": [part]}})
    page.evaluate(SHOW, ["Use over time", {"number": 0, "state": "running", "started_at": NOW}])
    expect(page.locator("#comparison figcaption")).to_have_text(["GPU utilisation, each GPU"])
    plot = page.locator("#comparison canvas")
    expect(plot).to_have_attribute(
        "aria-label",
        "GPU utilisation, each GPU. gpu01:2: last 80 %, maximum 90 %; gpu01:10: last 70 %, maximum "
        "70 %; gpu02:0: last 30 %, maximum 30 %.",
    )
    check(page, "run-use-ranks")
