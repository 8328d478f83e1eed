"""Pages of models without Hub and service: a model that waits, sleeps or fails, what its settings
refuse, and what users see who may only use it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from looks import check
from pages_alone import open_alone

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
NOW = time.time()
LIMITS = {"body": 10 * 1024**2, "seconds": 600, "wake": 120, "in_flight": 64, "waiting": 200}
MODEL = {
    "name": "embed", "owner": "ada", "address": "/services/portal/models/embed/",
    "least": 0, "most": 4, "target": 8, "idle": 1800, "limits": LIMITS, "users": ["barbara"],
    "groups": ["lab"], "everyone": False, "created_at": NOW - 86400, "active_at": NOW - 60,
    "problem": "", "load": 40.0, "wait": 300.0, "expected_at": None, "replicas": [],
    "versions": [
        {
            "number": 2, "created_at": NOW - 600, "environment": "pytorch",
            "environment_version": 3, "digest": "sha256:0123456789abcdef", "command": ["vllm"],
            "health": "/health", "folder": "~/m", "paths": ["/v1/"], "example": {},
            "source": {"model": "minilm"}, "resources": {"gpus": 1}, "share": 10, "failures": 0,
            "problem": "",
        },
        {
            "number": 1, "created_at": NOW - 9600, "environment": "pytorch",
            "environment_version": 2, "digest": "", "command": ["vllm"], "health": "/health",
            "folder": "~/<b>old", "paths": [], "example": {}, "source": {}, "resources": {},
            "share": 90, "failures": 0, "problem": "",
        },
    ],
}  # fmt: skip
REPLICA = {
    "id": "5e2f3c1a0b7d", "version": 1, "state": "ready", "server": "ep-5e2f-0", "session": "7",
    "job_id": "41", "nodes": ["gpu01"], "successor_of": "", "created_at": NOW - 4000,
    "started_at": NOW - 3900, "ready_at": NOW - 3800, "ends_at": NOW + 300, "ended_at": None,
    "overlap": 0.0, "gpu_hours": 0.0,
}  # fmt: skip
SUCCESSOR = {
    **REPLICA, "id": "77aa3c1a0b7d", "state": "waiting", "job_id": "42", "nodes": [],
    "successor_of": REPLICA["id"], "started_at": None, "ready_at": None, "ends_at": None,
}  # fmt: skip
ENDED = {
    **REPLICA, "id": "99aa3c1a0b7d", "state": "ended", "session": "", "ended_at": NOW - 3700,
    "overlap": 720.0, "gpu_hours": 0.4,
}  # fmt: skip
TRIAL = {
    "name": "embed", "owner": "ada", "address": "/services/portal/models/embed/", "paths": [],
    "example": {"method": "POST", "path": "/v1/embeddings", "body": {"input": "it's"}},
}  # fmt: skip
POINT = {
    "requests": 12.5, "errors": 0.1, "tokens": 300.0, "p50": 0.02, "p95": 0.3, "waiting": 2,
    "ready": 1.0, "replicas": 1.5, "gpus": 2.0,
}  # fmt: skip
FIGURES = {
    "began_at": NOW - 3600, "ended_at": NOW, "seconds": 60.0, "requests": 45000, "errors": 3,
    "tokens": 9000, "gpu_hours": 2.5,
    "items": [
        *({"at": NOW - 3000 + 60 * minute, **POINT} for minute in range(20)),
        {"at": NOW - 600, **POINT},  # slept between
    ],
}  # fmt: skip
OWNER = {"name": "embed", "whole": True, "own": True, "usable": True, "stops": True}


def opened(page: Any, rights: dict[str, Any] = OWNER, **more: Any) -> None:
    answers = {
        "models/embed": MODEL,
        "models/embed/trial": TRIAL,
        "models/embed/figures": FIGURES,
        **more.pop("answers", {}),
    }
    answers["models/embed"] = answers["models/embed"] | more
    open_alone(page, "model.html", model=rights, answers=answers)


def test_a_successor_waits_and_the_page_says_until_when(page: Any) -> None:
    replicas = [SUCCESSOR, REPLICA, ENDED]
    opened(page, replicas=replicas, expected_at=NOW + 900)
    expect(page.locator("#model .state")).to_contain_text("ready")
    rows = page.locator("#replicas tbody tr")
    expect(rows.nth(0)).to_contain_text("waiting in the queue")
    expect(rows.nth(0)).to_contain_text("answers about")
    expect(rows.nth(0)).to_contain_text("follows 5e2f3c")
    expect(rows.nth(2)).to_contain_text("12 min")
    expect(rows.nth(2)).to_contain_text("24 GPU-minutes")
    expect(page.locator("#replicas-count")).to_contain_text("handovers have cost 24 GPU-minutes")
    expect(page.locator("#versions")).to_contain_text("Catalog: minilm")
    expect(page.locator("#versions")).to_contain_text("Folder ~/<b>old")
    expect(page.locator("#model")).to_contain_text("barbara; group lab")
    words = page.get_by_role("region", name="curl").inner_text()
    assert """-d '{"input":"it'\\''s"}'""" in words
    plot = page.locator("#figures canvas").nth(1)
    words = (
        "Time of an answer in ms. half within: last 20, maximum 20; "
        "95 % within: last 300, maximum 300."
    )
    expect(plot).to_have_attribute("aria-label", words)
    check(page, "model-handover")


def test_the_use_of_each_replica_is_shown(page: Any) -> None:
    """Of four at most; one whose use was not measured is left out."""
    part = {
        "began_at": NOW - 600, "last_at": NOW, "seconds": 60, "sources": "simulated",
        "gpu": [60, 55], "gpu_memory": [1024, 2048], "memory": [None, None], "gpus": {},
    }  # fmt: skip
    ready = [{**REPLICA, "id": f"{job}aa3c1a0b7d", "job_id": str(job)} for job in range(41, 47)]
    uses: dict[str, Any] = {f"jobs/{job}/use": {"parts": [part]} for job in range(41, 44)}
    opened(page, replicas=ready, answers={**uses, "jobs/44/use": {"parts": []}})
    use = page.locator("#use")
    expect(use.get_by_role("heading")).to_have_text([f"Use of job {job}" for job in (41, 42, 43)])
    expect(use.locator("canvas")).to_have_count(6)
    expect(use).to_contain_text("2 further replicas: their jobs' pages have their use.")
    expect(use.get_by_text("simulated readings")).to_have_count(3)
    check(page, "model-use")


def test_one_that_sleeps_is_woken(page: Any) -> None:
    sent: list[Any] = []

    def shares(request: Any) -> Any:
        sent.append(request.post_data_json)
        return MODEL

    opened(page, answers={"models/embed/shares": shares})
    expect(page.locator("#model .state")).to_contain_text("asleep")
    page.get_by_role("button", name="Wake it").click()
    page.get_by_role("dialog").get_by_role("button", name="Wake it").click()
    expect(page.locator("#board-toasts")).to_contain_text("being launched")
    assert sent == [{"shares": {"1": 90, "2": 10}}]


def test_settings_say_beside_the_field_what_is_wrong(page: Any) -> None:
    sent: list[Any] = []

    def changed(request: Any) -> Any:
        if request.method == "GET":
            return MODEL
        sent.append(request.post_data_json)
        words = "'least' (5) must not exceed 'most' (4)."
        return {"error": {"code": "invalid_request", "message": words, "field": "least"}}

    open_alone(page, "model.html", model=OWNER, answers={"models/embed": changed})
    page.get_by_role("button", name="More actions for embed").click()
    page.get_by_role("button", name="Change settings…").click()
    dialog = page.get_by_role("dialog", name="Settings of embed")
    field = dialog.get_by_label("Replicas at least")
    field.fill("5")
    check(page, "model-settings")
    dialog.get_by_role("button", name="Save settings").click()
    expect(dialog.get_by_role("alert").filter(has_text="must not exceed")).to_be_visible()
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    (body,) = sent
    assert (body["least"], body["idle"], body["users"]) == (5, 1800, ["barbara"])
    assert body["limits"] == LIMITS


def test_users_see_how_to_ask_it_alone(page: Any) -> None:
    item = {
        "name": "embed", "owner": "barbara", "address": MODEL["address"], "state": "loading",
        "ready": 0, "problem": "", "mine": False, "active_at": 0.0,
    }  # fmt: skip
    rights = {**OWNER, "whole": False, "own": False, "stops": False}
    answers = {"models": {"items": [item]}}
    opened(page, rights, answers=answers)
    expect(page.locator("#model")).to_contain_text("by barbara")
    expect(page.locator("#model .state")).to_contain_text("loading")
    expect(page.get_by_label("Body (JSON)")).to_have_value('{\n  "input": "it\'s"\n}')
    expect(page.locator("#versions")).to_have_count(0)
    check(page, "model-user")


def test_the_list_of_models(page: Any) -> None:
    def item(name: str, state: str, **more: Any) -> dict[str, Any]:
        return {
            "name": name, "owner": "ada", "address": "/", "state": state, "ready": 0,
            "problem": "", "mine": True, "active_at": 0.0, **more,
        }  # fmt: skip

    problem = "Version 1 was given up: 3 replicas in a row failed."
    items = [
        item("embed", "ready", ready=2, active_at=NOW),
        item("llm", "failed", problem=problem),
        item("old", "asleep", mine=False, owner="barbara"),
    ]
    answers = {"models": {"items": items}}
    open_alone(page, "models.html", answers=answers, models_offered=True, sees_all=True)
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("does not answer")
    expect(rows.nth(1)).to_contain_text(problem)
    expect(rows.nth(2)).to_contain_text("barbara")
    check(page, "models")


def test_a_model_of_the_catalog_is_served_with_its_own_program(page: Any) -> None:
    sent: list[Any] = []

    def posted(request: Any) -> Any:
        sent.append((request.method, request.post_data_json))
        return MODEL

    def entry(name: str, **more: Any) -> dict[str, Any]:
        return {
            "name": name, "title": name.title(), "description": "", "licence": "MIT",
            "environment": "lab", "command": ["app", "{socket}"], "health": "/health",
            "paths": [], "folder": "~", "example": {}, "resources": {"gpus": 0, "memory": "2G"},
            "offered": True, "problem": "", **more,
        }  # fmt: skip

    def field(name: str, label: str) -> dict[str, Any]:
        return {
            "name": name, "label": label, "number": name == "gpus", "least": 0, "values": None,
            "labels": {}, "unset": "any", "folded": False,
        }  # fmt: skip

    choices = {
        "items": [
            {"environment": name, "title": name, "gpu_types": [], "default": {"gpus": 1}}
            for name in ("other", "lab")
        ],
        "fields": [field("gpus", "GPUs"), field("memory", "Memory")],
        "groups": ["lab"], "most": 4, "names": [], "simulated": False,
    }  # fmt: skip
    answers = {
        "models": {"items": []},
        "model-choices": choices,
        "model-catalog": {
            "items": [entry("minilm"), entry("large", offered=False, problem="It was not tested.")]
        },
        "runs": {"items": [], "total": 0, "next": None},
        "estimates": {"words": "Starts now.", "field": "", "nearby": []},
        "models/mini": posted,
        "models/mini/versions": posted,
    }
    open_alone(page, "models.html", answers=answers, models_offered=True, sees_all=False)
    page.get_by_role("button", name="Serve a model").click()
    dialog = page.get_by_role("dialog", name="Serve a model")
    model = dialog.get_by_label("Model", exact=True)
    model.select_option("Large (not offered)")
    expect(dialog.get_by_text("It was not tested.")).to_be_visible()
    model.select_option("Minilm")
    expect(dialog.get_by_text("It was not tested.")).to_be_hidden()
    expect(dialog.get_by_label("Command")).to_be_hidden()
    expect(dialog.get_by_label("Environment", exact=True)).to_have_value("lab")
    expect(dialog.get_by_label("Memory")).to_have_value("2G")
    dialog.get_by_label("Name", exact=True).fill("Mini!")
    dialog.get_by_role("button", name="Serve model").click()
    expect(dialog.get_by_text("A name has 2 to 40 letters")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("mini")
    dialog.get_by_label("Groups").fill("lab, physics")
    check(page, "serve-catalog")
    with page.expect_request("**/endpoints/mini"):
        dialog.get_by_role("button", name="Serve model").click()
    who = {"users": [], "groups": ["lab", "physics"], "everyone": False}
    version = {"source": {"model": "minilm"}, "gpus": 0, "memory": "2G", "share": 100}
    assert sent == [
        ("PUT", {"least": 0, "most": 1, "idle": 1800, **who}),
        ("POST", version),
    ]


def test_a_run_whose_environment_is_gone_is_not_served_in_another_by_itself(page: Any) -> None:
    choices = {
        "items": [{"environment": "lab", "title": "Lab", "gpu_types": [], "default": {"gpus": 1}}],
        "fields": [], "groups": [], "most": 4, "names": [], "simulated": False,
    }  # fmt: skip
    run = {"id": "5e2f", "name": "rates", "folder": "/home/ada/runs/rates", "version": 4}
    answers = {
        "models": {"items": []},
        "model-choices": choices,
        "runs": {"items": [run], "total": 1, "next": None},
        "runs/5e2f": {**run, "environment": "gone"},
        "runs/5e2f/points/0": {"parameters": {"lr": 0.1}, "state": "succeeded", "attempt": 2},
        "estimates": {"words": "Starts now.", "field": "", "nearby": []},
    }
    open_alone(page, "models.html", answers=answers, models_offered=True, sees_all=False)
    page.get_by_role("button", name="Serve a model").click()
    dialog = page.get_by_role("dialog", name="Serve a model")
    dialog.get_by_label("From", exact=True).select_option("A point of a run")
    expect(dialog.get_by_text("Trained in gone, version 4 with lr 0.1")).to_be_visible()
    expect(dialog.get_by_label("Folder", exact=True)).to_have_value("~/runs/rates/0000-2")
    expect(dialog.get_by_text("The environment 'gone' is not offered to you now.")).to_be_visible()
    expect(dialog.get_by_label("Version of the environment")).to_have_value("")
