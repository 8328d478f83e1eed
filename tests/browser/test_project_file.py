"""What a project's file says on its page, without Hub and service: starters, runs that can be
repeated, and what differed; and the dialogs of templates and forks."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from looks import check
from pages_alone import open_alone

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
NOW = time.time()
PROJECT: dict[str, Any] = {
    "project": {
        "name": "proteins", "title": "Proteins", "description": "", "account": None, "budget": 10,
        "ends": None, "environments": ["torch"], "largest": {"gpus": 1},
    },
    "state": "approved", "number": 1, "role": "owner", "created_by": "ada", "created_at": NOW,
    "changed_at": NOW, "answer": "", "answered_by": "", "answered_at": None, "archived_at": None,
    "may": ["edit", "export"], "closed": "", "group_error": "", "problem": "",
    "budget": {"budget": 10, "used": 1, "weekly": 0, "until": None},
    "folder": {"path": "/projects/proteins", "exists": True}, "members": [], "work": [],
}  # fmt: skip
DIFFERENT = {"what": "GPU driver", "was": "570.1", "here": "535.<b>"}
RUN: dict[str, Any] = {
    "name": "sweep", "source": "src/train.py", "environment": "torch", "points": 2,
    "metrics": {"loss": "0.25 to 0.5"}, "unknown": ["Slurm"], "differences": [],
    "repetitions": [
        {
            "user": "ada", "run": "5e2f", "name": "sweep-2", "at": NOW - 60, "state": "identical",
            "differences": [],
        },
        {
            "user": "mike", "run": "5e30", "name": "sweep-3", "at": NOW - 90, "state": "different",
            "differences": [DIFFERENT],
        },
    ],
}  # fmt: skip
FILE: dict[str, Any] = {
    "origin": "https://git.example.org/team/proteins.git (0123456789ab)",
    "left_out": "Left out: 'link' is a link.", "files": "waiting", "brought": "",
    "environments": [], "may_repeat": True, "runs": [RUN],
    "starters": [
        {"title": "First steps", "path": "a b/first.ipynb", "environment": "torch",
         "resources": {"gpus": 1}},
    ],
    "sessions": [{"id": "7", "title": "PyTorch", "url": "http://portal.test/user/ada/work/"}],
}  # fmt: skip


def opened(page: Any, file: dict[str, Any], asked: list[Any]) -> None:
    def run(request: Any) -> dict[str, Any]:
        if request.method == "GET":
            return {"differences": [{"what": "Script", "was": "sha256:1", "here": "sha256:2"}]}
        asked.append(json.loads(request.post_data))
        return {"id": "5e31", "name": "sweep-4", "differences": []}

    path = "projects/proteins/file"
    answers = {"projects/proteins": PROJECT, path: file, f"{path}/runs/sweep": run}
    open_alone(page, "project.html", answers=answers, project="proteins")
    expect(page.get_by_role("heading", name="Proteins", exact=True)).to_be_visible()


def test_a_run_of_the_file_is_repeated_after_its_differences_were_shown(page: Any) -> None:
    asked: list[Any] = []
    opened(page, FILE, asked)
    section = page.locator("#file")
    expect(section).to_contain_text("the next session of an owner puts them there")
    expect(section).to_contain_text("Left out: 'link' is a link.")
    link = section.get_by_role("link", name="Open First steps")
    assert link.get_attribute("href").endswith("/user/ada/work/lab/tree/a%20b/first.ipynb")
    expect(section.locator("#repetitions")).to_contain_text("GPU driver: 535.<b> instead of 570.1")
    expect(section.locator("#repetitions .state")).to_have_text(["identical", "different"])
    expect(section.locator("#file-runs")).to_contain_text("The file does not say: Slurm.")
    check(page, "project-file")
    section.get_by_role("button", name="Repeat sweep…").click()
    form = page.get_by_role("dialog")
    expect(form.get_by_role("status")).to_contain_text("Script: sha256:2 instead of sha256:1")
    check(page, "project-file-repeat")
    form.get_by_role("button", name="Repeat run").click()
    expect(page.locator("#board-toasts")).to_contain_text("The run sweep-4 was started.")
    assert [body["session"] for body in asked] == ["7"] and len(asked[0]["id"]) == 32


def test_without_a_session_or_a_file_nothing_is_offered_that_cannot_work(page: Any) -> None:
    opened(page, FILE | {"sessions": []}, [])
    link = page.get_by_role("link", name="Launch First steps")
    expect(link).to_have_attribute(
        "href", "/hub/spawn?opt-project=proteins&opt-environment=torch&opt-gpus=1"
    )
    page.get_by_role("button", name="Repeat sweep…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Launch a session for this project")).to_be_visible()
    expect(dialog.get_by_role("button", name="Repeat run")).to_have_count(0)
    nothing = {"origin": "", "left_out": "", "files": "", "runs": [], "starters": []}
    opened(page, FILE | nothing, [])
    expect(page.locator("#file")).to_be_hidden()


def test_a_project_is_made_from_a_template_or_a_repository(page: Any) -> None:
    asked: list[Any] = []

    def make(request: Any) -> dict[str, Any]:
        if request.method == "GET":
            item = {"name": "any", "title": "Any", "description": "Its purpose.", "problem": ""}
            return {"items": [item | {"environments": ["torch"]}]}
        asked.append(json.loads(request.post_data))
        words = "Remove the user name and password from the address."
        return {"error": {"code": "invalid_request", "message": words, "field": "repository"}}

    answers = {
        "projects": {"items": [], "total": 0, "next": None},
        "projects/templates": make,
        "projects/forks": make,
    }
    open_alone(page, "projects.html", answers=answers, manages=False, requests=True)
    page.get_by_role("button", name="New from template…").click()
    form = page.get_by_role("dialog")
    expect(form).to_contain_text("Its purpose.")
    check(page, "project-template")
    form.get_by_label("Name", exact=True).fill("mine")
    form.get_by_role("button", name="Request project").click()
    expect(form.get_by_role("alert")).to_contain_text("Remove the user name")
    form.get_by_role("button", name="Back").click()
    page.get_by_role("button", name="Fork from git…").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Git repository").fill("https://a:b@example.org/x.git")
    form.get_by_role("button", name="Request project").click()
    expect(form.get_by_label("Git repository")).to_be_focused()
    expect(form.get_by_role("alert").filter(has_text="Remove the user name")).to_be_visible()
    check(page, "project-fork")
    assert asked == [
        {"template": "any", "name": "mine", "title": None},
        {"repository": "https://a:b@example.org/x.git", "branch": "", "name": None, "files": True},
    ]
