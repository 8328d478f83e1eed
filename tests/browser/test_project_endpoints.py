"""Endpoints of a project in the browser, without Hub and service: the section of the project's
page, and the dialogs in which a model is served for a project and shared with one."""

from __future__ import annotations

import time
from typing import Any

import pytest
from looks import check
from pages_alone import open_alone

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
NOW = time.time()
LEFT = "It gets no more replicas: its owner mike is no longer a member of the project 'proteins'."
PROJECT = {
    "project": {
        "name": "proteins", "title": "Proteins", "description": "", "account": "bio", "budget": 5,
        "ends": None, "environments": [], "largest": {"gpus": 2},
    },
    "state": "approved", "number": 1, "role": "member", "created_by": "olga", "created_at": NOW,
    "changed_at": NOW, "answer": "", "answered_by": "", "answered_at": None, "archived_at": None,
    "may": ["leave"], "closed": "", "group_error": "", "problem": "",
    "budget": {"budget": 5, "used": 1, "weekly": 1, "until": None},
    "folder": {"path": "", "exists": False}, "members": [], "work": [],
}  # fmt: skip
EMBED = {
    "name": "embed", "owner": "ada", "address": "/services/portal/models/embed/", "state": "ready",
    "ready": 2, "problem": "", "shared": False, "requests": 1234, "gpu_hours": 12.5,
    "active_at": NOW,
}  # fmt: skip
OLD = {**EMBED, "name": "old", "owner": "mike", "state": "failed", "ready": 0, "problem": LEFT}
LENT = {**EMBED, "name": "lent", "owner": "carl", "shared": True, "requests": None,
        "gpu_hours": None}  # fmt: skip
MODEL = {
    "name": "embed", "owner": "ada", "address": "/services/portal/models/embed/", "least": 0,
    "most": 4, "target": 8, "idle": 1800, "users": [], "groups": ["lab"], "everyone": False,
    "limits": {"body": 1024**2, "seconds": 600, "wake": 120, "in_flight": 64, "waiting": 200},
    "project": "fold", "projects": ["gone"], "created_at": NOW, "active_at": NOW, "problem": "",
    "load": 40.0, "wait": 300.0, "expected_at": None, "replicas": [], "versions": [],
}  # fmt: skip
PROJECTS = [
    {"name": "proteins", "title": "Proteins"}, {"name": "rates", "title": "<b>Rates"},
]  # fmt: skip


def test_members_see_the_models_of_their_project(page: Any) -> None:
    listed = {"items": [EMBED, LENT, OLD]}
    asked = {"projects/proteins": PROJECT, "projects/proteins/endpoints": listed}
    open_alone(page, "project.html", project="proteins", answers=asked)
    section = page.get_by_role("region", name="Endpoints")
    rows = section.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("yours")
    expect(rows.nth(0)).to_contain_text("1,234")
    expect(rows.nth(0)).to_contain_text("12.5")
    expect(rows.nth(0)).to_contain_text("http://portal.test/services/portal/models/embed/")
    expect(rows.nth(1)).to_contain_text("by carl; shared with the project")
    expect(rows.nth(2)).to_contain_text(LEFT)
    expect(section.get_by_role("link", name="embed")).to_have_attribute(
        "href", "/services/portal/endpoints/embed"
    )
    check(page, "project-endpoints")


def test_a_reader_has_no_such_section_and_asks_for_none(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answers = {"projects/proteins": {**PROJECT, "role": "reader"}}
    open_alone(page, "project.html", project="proteins", answers=answers)
    expect(page.get_by_role("heading", name="Proteins")).to_be_visible()
    expect(page.get_by_role("region", name="Endpoints")).to_be_hidden()
    assert not [url for url in asked if url.endswith("/endpoints")]


def test_a_model_is_served_for_a_project_within_its_limits(page: Any) -> None:
    sent: list[Any] = []

    def posted(request: Any) -> Any:
        sent.append(request.post_data_json)
        return MODEL

    def choices(request: Any) -> Any:
        of_project = request.url.endswith("project=proteins")
        title = "Proteins: Lab" if of_project else "Lab"
        item = {"environment": "lab", "title": title, "gpu_types": [], "default": {"gpus": 1}}
        return {
            "items": [item], "fields": [], "groups": ["lab"], "projects": PROJECTS, "most": 4,
            "names": ["mine"], "simulated": False,
        }  # fmt: skip

    answers = {
        "models": {"items": []},
        "model-choices": choices,
        "model-catalog": {"items": []},
        "runs": {"items": [], "total": 0, "next": None},
        "model-estimates": {"words": "Starts now.", "field": "", "nearby": []},
        "models/fold": posted,
        "models/fold/versions": posted,
    }
    open_alone(page, "models.html", answers=answers, models_offered=True, sees_all=False)
    page.get_by_role("button", name="Serve a model").click()
    dialog = page.get_by_role("dialog", name="Serve a model")
    owner = dialog.get_by_label("For", exact=True)
    assert owner.locator("option").all_inner_texts() == [
        "me", "the project Proteins", "the project <b>Rates",
    ]  # fmt: skip
    dialog.get_by_label("From", exact=True).select_option("A folder")
    owner.select_option("the project Proteins")
    environment = dialog.get_by_label("Environment", exact=True)
    expect(environment.locator("option")).to_have_text(["Proteins: Lab"])
    dialog.get_by_label("Name", exact=True).fill("mine")
    expect(owner).to_be_disabled()  # a further version of one that exists
    dialog.get_by_label("Name", exact=True).fill("fold")
    dialog.get_by_label("Members of the project <b>Rates").check()
    check(page, "serve-project")
    with page.expect_request("**/endpoints/fold"):
        dialog.get_by_role("button", name="Serve model").click()
    assert (sent[0]["project"], sent[0]["projects"]) == ("proteins", ["rates"])
    assert sent[1]["environment"] == "lab"


def test_a_model_is_shared_with_projects_by_their_titles(page: Any) -> None:
    sent: list[Any] = []

    def changed(request: Any) -> Any:
        if request.method == "PUT":
            sent.append(request.post_data_json)
        return MODEL

    rights = {"name": "embed", "whole": True, "own": True, "usable": False, "stops": True}
    answers = {
        "models/embed": changed,
        "model-choices": {"groups": [], "projects": PROJECTS},
    }
    open_alone(page, "model.html", model=rights, answers=answers)
    expect(page.locator("#model")).to_contain_text("Group lab; projects fold, gone")
    page.get_by_role("button", name="More actions for embed").click()
    page.get_by_role("button", name="Change settings…").click()
    dialog = page.get_by_role("dialog", name="Settings of embed")
    dialog.get_by_label("Members of the project Proteins").check()
    dialog.get_by_label("Members of the project gone").uncheck()
    dialog.get_by_role("button", name="Save settings").click()
    expect(dialog).to_be_hidden()
    assert [body["projects"] for body in sent] == [["proteins"]]
