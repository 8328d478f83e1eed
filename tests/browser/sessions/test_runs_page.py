"""The pages of runs in a browser: the list with its bars, and a run with its points."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, without_session
from looks import check
from remembered import stored
from sign_in import sign_in

from portal.models.session.run import PointState, Run, RunPoint
from portal.store import Store

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_core_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

ID = "9e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
OLD = "8e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
HOSTILE = "<img src=x onerror=window.hacked=1>"


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
        await store.runs.add(run(ID, "rates"))
        await store.runs.add(run(OLD, "before", points=3, created_at=5.0, ended_at=9.0))
        await store.run_points.save(
            [
                *(point(n, "succeeded", metrics={"loss": 1 / (1 + n)}) for n in range(10)),
                point(10, "failed", cell=4, message=f"ValueError: {HOSTILE} is no rate."),
                point(11, "running", cell=2, metrics={"loss": 7.5}),
            ]
        )

    async def drop(store: Store) -> None:
        for id_ in (ID, OLD):
            await store.runs.remove("ada", id_)

    stored(demo, keep)
    yield
    stored(demo, drop)


def test_the_list_leads_to_a_run(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/sessions")
    page.locator(".board-head").get_by_role("link", name="Runs").click()
    row = page.locator(f"#list tr[data-key='{ID}']")
    expect(row).to_contain_text("10 succeeded, 1 failed, 1 running, 188 waiting")
    expect(row).to_contain_text("work/train.ipynb")
    expect(page.locator("#list tbody tr").first).to_contain_text("rates")
    page.locator("#list").get_by_role("button", name="Name").click()
    expect(page.locator("#list tbody tr").first).to_contain_text("before")
    check(page, "runs")
    row.get_by_role("link", name="rates").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rates")


def test_the_points_are_sorted_and_filtered(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/{ID}")
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


def test_others_have_no_such_run(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "grace")
    assert page.goto(f"{demo.url}/services/portal/runs/{ID}").status == 404
    page.goto(f"{demo.url}/services/portal/runs")
    expect(page.locator("#list")).to_contain_text("You have no runs yet.")


def test_a_new_run_launches_a_session_with_its_dialog(demo: Any, page: Any) -> None:
    """Of a user without one. From a session that runs: test_job_kernels.py."""
    for _ in without_session(Person(demo.url, "grace")):
        sign_in(page, demo.url, "grace")
        page.goto(f"{demo.url}/services/portal/runs")
        page.get_by_role("link", name="New run").click()
        page.wait_for_url("**/hub/spawn*")
        page.get_by_role("radio", name="Python (virtual environment)").check(force=True)
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text(
            "Choose a notebook or script for a new run", timeout=180_000
        )
        page.goto("about:blank")
