"""Options by REST: what the page would not offer is refused, and nothing reaches Slurm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostile import HOSTILE
from hub_client import Person

BODIES = [json.dumps({"environment": "python-venv", key: value}) for key, value in HOSTILE]


def jobs_ever(demo: Any) -> int:
    """How many jobs this cluster has ever taken: the newest id counts them."""
    out = demo.run(["scontrol", "show", "config"]).stdout
    line = next(line for line in out.splitlines() if line.startswith("NEXT_JOB_ID"))
    return int(line.split("=")[1])


def test_hostile_options_are_refused_and_nothing_is_submitted(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv", "time": "0:30:00"})
    ada.wait_ready()
    ada.stop()
    before = jobs_ever(demo)
    wrong = []
    for body in BODIES:
        answer = ada.launch(json.loads(body))
        if not 400 <= answer.status_code < 500:
            wrong.append((answer.status_code, body))
        elif "Internal Server Error" in answer.text or not answer.json().get("message"):
            wrong.append((answer.text, body))
    assert not wrong
    assert jobs_ever(demo) == before
    # The last choice is still the good one, and it still launches.
    assert ada.server().get("user_options", {}).get("time", "0:30:00") == "0:30:00"
    answer = ada.api("POST", ada.server_path())
    assert answer.status_code in (201, 202), answer.text
    assert ada.wait_ready()["user_options"]["time"] == "0:30:00"


@pytest.mark.parametrize("then", [{}, None])
def test_put_then_post_is_judged_too(demo: Any, ada: Person, then: dict[str, Any] | None) -> None:
    before = jobs_ever(demo)
    path = ada.server_path("hostile")
    created = ada.api("PUT", path, {"user_options": {"prologue": "id", "exec_prefix": "sh"}})
    assert created.status_code == 201, created.text
    answer = ada.api("POST", path, then)
    if answer.status_code in (201, 202):  # an empty body may also mean "the defaults"
        model = ada.wait_ready("hostile")
        assert "prologue" not in model["user_options"]
        ada.stop("hostile")
    else:
        assert 400 <= answer.status_code < 500
        assert jobs_ever(demo) == before
    ada.api("DELETE", path, {"remove": True})


def test_an_environment_of_another_group_is_refused_alike(demo: Any, ada: Person) -> None:
    unknown = ada.launch({"environment": "no-such-environment"})
    assert unknown.status_code == 403
    assert "no environment of that name" in unknown.json()["message"]


def test_the_pages_form_is_judged_too(demo: Any, ada: Person) -> None:
    before = jobs_ever(demo)
    ada.http.get("/hub/spawn")
    answer = ada.http.post(
        "/hub/spawn",
        params={"_xsrf": ada.xsrf},
        data={"environment": "python-venv", "gpus": "99", "exec_prefix": "id"},
    )
    assert answer.status_code in (400, 403)
    assert "GPUs" in answer.text
    assert jobs_ever(demo) == before


def test_a_link_fills_the_page_in_and_starts_nothing(demo: Any, ada: Person) -> None:
    before = jobs_ever(demo)
    answer = ada.http.get(
        "/hub/spawn", params={"opt-gpus": "3", "opt-memory": "9G", "opt-partition": "$(id)"}
    )
    assert answer.status_code == 200
    assert "The link filled in this page" in answer.text
    assert 'value="9G"' in answer.text
    assert "$(id)" not in answer.text
    assert jobs_ever(demo) == before
    assert 'value="9G"' not in ada.http.get("/hub/spawn").text
