"""What a project has left and who used it, on its page by itself, with the answers that it gets."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from looks import check
from pages_alone import ORIGIN, open_alone

from portal.models.session.usage import UsageRow
from portal.models.space import Role, SpaceState
from portal.projects.bodies import BudgetUse, FolderItem, ProjectDetail, WorkItem
from portal.projects.models import Project
from portal.projects.money.funds import ProjectMoney, SlurmUse
from portal.projects.money.usage import ProjectUsageQuery, usage_by_member

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

NOW = time.time()
DAY = 86400.0
CSV = f"{ORIGIN}/services/portal/api/v1/projects/proteins/usage.csv"
HOSTILE = "<img src=x onerror=window.hacked=1>"
PEOPLE = ("ada", "barbara", "carl", "dora", HOSTILE, "eve", "finn")
LIMIT = "It is charged to the account of the project 'Proteins'. Ask an owner of the project."
BUDGET = BudgetUse(budget=100, used=40, weekly=14, until=NOW + 30 * DAY)
SLURM = ProjectMoney(
    budget=BUDGET,
    ends=None,
    account="bio",
    slurm=(
        SlurmUse(account="bio", tres="gres/gpu", limit=60, used=45, until=NOW + 3 * DAY),
        SlurmUse(account="science", tres="cpu", limit=1000, used=1000, until=NOW),
    ),
    weekly=35,
    enforced=True,
    half_life=7 * DAY,
    age=4,
    first="slurm",
    first_at=NOW,
)


def detail() -> dict[str, Any]:
    work = WorkItem(
        user="ada", kind="session", server="work", environment="Lab", state="pending", gpus=1,
        submitted_at=NOW, waits=f"A limit of the account is reached: GPU time together. {LIMIT}",
    )  # fmt: skip
    folder = FolderItem(path="/projects/proteins", exists=True, size=2**40, free=2**38, quota=2**39)
    project = Project(name="proteins", title="Proteins", account="bio", budget=100)
    return ProjectDetail(
        project=project, state=SpaceState.APPROVED, number=1, role=Role.READER, created_by="ada",
        created_at=NOW, changed_at=NOW, answer="", answered_by="", answered_at=None,
        archived_at=None, may=("leave",), closed="", group_error="", problem="", budget=BUDGET,
        folder=folder, members=(), work=(work,),
    ).model_dump(mode="json")  # fmt: skip


def usage(request: Any) -> dict[str, Any]:
    """Answer as the service does, to what the page asks."""
    asked = {name: value[0] for name, value in parse_qs(urlsplit(request.url).query).items()}
    query = ProjectUsageQuery.model_validate(asked)
    rows = []
    for back in range(10):
        day = (datetime.now(UTC) - timedelta(days=back)).date()
        year, week, _ = day.isocalendar()
        period = day.isoformat() if query.period == "day" else f"{year}-W{week:02}"
        rows += [
            UsageRow(
                key=person, period=period, jobs=1, held_hours=10 - number + back / 2,
                used_hours=None, idle_hours=None, measured_share=0,
            )
            for number, person in enumerate(PEOPLE)
        ]  # fmt: skip
    return usage_by_member(rows, query, time.time()).model_dump(mode="json")


def show(page: Any, money: Any, usage_of: Any = usage) -> None:
    answers = {
        "projects/proteins": detail(),
        "projects/proteins/money": money,
        "projects/proteins/usage": usage_of,
    }
    open_alone(page, "project.html", answers=answers, project="proteins")


def test_what_is_left_and_who_used_it(page: Any) -> None:
    show(page, SLURM.model_dump(mode="json"))
    left = page.locator("#money")
    expect(left).to_contain_text("used 40 of 100 GPU-hours, at this pace until")
    expect(left).to_contain_text("Slurm\u2019s account bio")
    expect(left).to_contain_text("used 45 of 60 GPU-hours, at this pace until")
    expect(left).to_contain_text("used 1,000 of 1,000 CPU-hours: none is left, and jobs wait")
    expect(left).to_contain_text("Slurm\u2019s limit, which is used up")
    expect(left).to_contain_text("Slurm forgets half of the use in 7 d")
    plot = page.locator("#usage-plot canvas")
    expect(plot).to_have_attribute("aria-label", re.compile("GPU-hours by member. ada"))
    expect(page.locator("#usage tbody tr")).to_have_count(6)
    expect(page.locator("#usage")).to_contain_text("2 other users")
    expect(page.locator("#usage-words")).to_contain_text("in 30 days of UTC")
    page.get_by_text("All numbers of the plot").click()
    expect(page.locator("#usage-rows tbody tr")).to_have_count(30)
    expect(page.locator("#usage-rows thead th")).to_have_count(7)
    link = page.locator("#usage-csv")
    expect(link).to_have_attribute("href", f"{CSV}?period=day&last=30")
    expect(page.locator("#work")).to_contain_text(LIMIT)
    expect(page.locator("#project")).to_contain_text("256 GB free of its quota of 512 GB")
    check(page, "project-usage-alone")
    assert page.evaluate("window.hacked") is None
    page.get_by_label("By", exact=True).select_option("week")
    expect(page.locator("#usage-words")).to_contain_text("in 26 weeks of UTC")
    expect(page.locator("#usage-rows tbody tr")).to_have_count(26)
    expect(link).to_have_attribute("href", f"{CSV}?period=week&last=26")


def test_what_is_not_known_is_said(page: Any) -> None:
    silent = {"slurm": (), "age": None, "first": "budget", "first_at": BUDGET.until}
    money = SLURM.model_copy(update={**silent, "problem": "Slurm does not answer."})
    nobody = usage_by_member([], ProjectUsageQuery(), time.time()).model_dump(mode="json")
    show(page, money.model_dump(mode="json"), nobody)
    left = page.locator("#money")
    expect(left).to_contain_text("Slurm does not answer. What the account has left is not known.")
    expect(left).to_contain_text("the portal\u2019s budget, on")
    expect(page.locator("#usage")).to_contain_text("Nobody has used a GPU for this project")
    expect(page.locator("#usage-plot")).to_be_hidden()
    expect(page.locator("#usage-numbers")).to_be_hidden()
    check(page, "project-usage-unknown")
