"""Runs on the page of a project by themselves: the filters, what is chosen to be compared, and who
sees the part at all."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from looks import check
from pages_alone import open_alone

from portal.models.session.run import Run
from portal.projects.runs import ProjectRun
from portal.work.run.results.item import run_item
from portal.work.run.results.list_best import ListBest

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

HOSTILE = "<img src=x onerror=window.hacked=1>"
PATH = "projects/proteins"


def a_run(number: int, user: str, name: str) -> dict[str, Any]:
    id_ = f"{number}e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
    run = Run(
        id=id_, name=name, source="train.py", folder="/projects/proteins/runs/x", points=2,
        user=user, server=f"run-{number}", environment="torch", created_at=1.7e9,
        ended_at=1.7e9 + 9, resources={"gpus": 1}, project="proteins",
    )  # fmt: skip
    curve = (3.0, 2.0, 1.0)
    best = ListBest(run=id_, metric="loss", lowest=True, point=1, value=number / 8, curve=curve)
    return ProjectRun(**run_item(run, {}, None).model_dump(), best=best).model_dump(mode="json")


RUNS = [a_run(n, user, f"run-{n}") for n, user in enumerate(("ada", "bob", "bob", "ada", "carl"))]
BOLD = a_run(5, "o'neil & co", "bold") | {"best": None, "name": HOSTILE}


class Portal:
    """The API's answers; ``asked`` has the queries for runs."""

    def __init__(self, role: str | None) -> None:
        self.role = role
        self.asked: list[dict[str, str]] = []

    def project(self, request: Any) -> dict[str, Any]:
        return {
            "name": "proteins", "number": 1, "state": "approved", "role": self.role, "may": [],
            "closed": "", "problem": "", "group_error": "", "answer": "", "members": [], "work": [],
            "budget": {"budget": None, "used": 0, "weekly": 0, "until": None},
            "folder": {"path": "", "exists": False},
            "project": {
                "title": "Proteins", "description": "", "account": None, "budget": None,
                "ends": None, "environments": [], "largest": {"gpus": 1},
            },
        }  # fmt: skip

    def runs(self, request: Any) -> dict[str, Any]:
        query = {key: value[0] for key, value in parse_qs(urlsplit(request.url).query).items()}
        self.asked.append(query)
        user = query.get("user", "")
        items = [run for run in [*RUNS, BOLD] if user in ("", run["user"])]
        if query.get("state") == "failed":
            items = []
        users = sorted({run["user"] for run in [*RUNS, BOLD]})
        return {"items": items, "next": None, "total": len(items), "users": users}


def opened(page: Any, role: str | None) -> Portal:
    portal = Portal(role)
    answers = {PATH: portal.project, f"{PATH}/runs": portal.runs}
    open_alone(page, "project.html", answers=answers, project="proteins")
    page.get_by_role("heading", name="Proteins").wait_for()
    return portal


def test_runs_of_all_members_are_filtered_and_compared(page: Any) -> None:
    portal = opened(page, "member")
    rows = page.locator("#runs tr[data-key]")
    expect(rows).to_have_count(6)
    expect(rows.nth(1)).to_contain_text("0.125")
    expect(rows.nth(1).locator(".spark")).to_be_visible()
    expect(rows.nth(5)).to_contain_text(HOSTILE)
    link = rows.nth(1).get_by_role("link").get_attribute("href")
    assert link.endswith(f"/runs/{RUNS[1]['id']}?owner=bob")
    assert rows.nth(0).get_by_role("link").get_attribute("href").endswith(RUNS[0]["id"])
    check(page, "project-runs-alone")
    page.get_by_label("User", exact=True).select_option("o'neil & co")
    expect(rows).to_have_count(1)
    assert portal.asked[-1]["user"] == "o'neil & co" and "user=o%27neil" in page.url
    page.get_by_label("State").select_option("With failed points")
    expect(page.locator("#runs")).to_contain_text("No runs match these filters.")
    page.get_by_label("State").select_option("")
    page.get_by_label("User", exact=True).select_option("")
    expect(rows).to_have_count(6)
    # Two to four are compared, whose they are; one's own without the user.
    compare = page.locator("#runs-compare")
    for number, name in enumerate(("run-0 of ada", "run-1 of bob", "run-4 of carl"), 1):
        page.get_by_label(f"Select {name}").press("Space")
        expect(page.locator("#runs-chosen-words")).to_contain_text(f"{number} run")
    ids = [RUNS[0]["id"], f"bob/{RUNS[1]['id']}", f"carl/{RUNS[4]['id']}"]
    query = parse_qs(urlsplit(compare.get_attribute("href")).query)
    assert query == {"a": [ids[0]], "b": [ids[1]], "c": [ids[2]]}
    for name in ("run-2 of bob", "run-3 of ada"):
        page.get_by_label(f"Select {name}").check()
    expect(compare).to_be_hidden()
    expect(page.locator("#runs-chosen-words")).to_contain_text("At most four runs")
    expect(page.locator("#new-run")).to_have_attribute(
        "href", "/services/portal/runs/new?project=proteins"
    )
    assert page.evaluate("window.hacked") is None


def test_readers_start_none_and_admins_outside_see_none(page: Any) -> None:
    opened(page, "reader")
    expect(page.locator("#runs tr[data-key]")).to_have_count(6)
    expect(page.locator("#new-run")).to_be_hidden()
    page.unroute_all()
    portal = opened(page, None)
    expect(page.locator("#runs-part")).to_be_hidden()
    assert portal.asked == [], "a refusal would be in the audit log"
