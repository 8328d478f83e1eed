"""Options by REST: what the page would not offer is refused, and nothing reaches Slurm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hostile import HOSTILE
from hub_client import Person, wait_until
from jobs import jobs_ever, living_jobs

BODIES = [json.dumps({"environment": "python-venv", key: value}) for key, value in HOSTILE]


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


@pytest.fixture
def put(ada: Person) -> Iterator[Callable[[dict[str, Any]], str]]:
    """``put(options)`` makes the server "put" of Ada's without starting it, and gives its path."""
    path = ada.server_path("put")

    def create(options: dict[str, Any]) -> str:
        created = ada.api("PUT", path, {"user_options": options})
        assert created.status_code == 201, created.text
        return path

    yield create
    ada.stop("put")
    ada.api("DELETE", path, {"remove": True})


@pytest.mark.parametrize("then", [{}, None])
def test_put_then_post_is_judged_too(demo: Any, ada: Person, put: Any, then: Any) -> None:
    """An empty body means what was put: that is refused, not replaced by the defaults."""
    before = jobs_ever(demo)
    answer = ada.api("POST", put({"prologue": "id", "exec_prefix": "sh"}), then)
    assert answer.status_code == 400
    assert "'prologue' is not an option" in answer.json()["message"]
    assert jobs_ever(demo) == before
    assert not ada.server("put").get("user_options")


@pytest.mark.parametrize("then", [{}, None])
def test_put_then_post_starts_what_was_put(ada: Person, put: Any, then: Any) -> None:
    answer = ada.api("POST", put({"environment": "python-venv", "time": "0:10:00"}), then)
    assert answer.status_code in (201, 202), answer.text
    assert ada.wait_ready("put")["user_options"]["time"] == "0:10:00"


def test_an_environment_of_another_group_is_refused_alike(
    demo: Any, ada: Person, person: Callable[[str], Person]
) -> None:
    before = jobs_ever(demo)
    title = "For admins only"
    hidden = demo.environments / "hidden.yaml"
    hidden.write_text(
        f"name: hidden\ntitle: {title}\nkind: venv\npath: /v\ngroups: [portal-admins]\n"
    )
    hidden.chmod(0o644)
    try:
        grace = person("grace")
        wait_until("an admin sees it", lambda: title in grace.page("/hub/spawn"))
        assert title not in ada.page("/hub/spawn")
        refused = ada.launch({"environment": "hidden"})
        unknown = ada.launch({"environment": "no-such-environment"})
    finally:
        hidden.unlink()
    assert (refused.status_code, unknown.status_code) == (403, 403)
    assert "environment with this name" in unknown.json()["message"]
    assert refused.json()["message"] == unknown.json()["message"]
    assert jobs_ever(demo) == before


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
    assert "The link filled in this form" in answer.text
    assert 'value="9G"' in answer.text
    assert "$(id)" not in answer.text
    assert jobs_ever(demo) == before
    assert 'value="9G"' not in ada.http.get("/hub/spawn").text


def test_node_features_reach_slurm(demo: Any, ada: Person) -> None:
    before = jobs_ever(demo)
    none = ada.launch({"environment": "python-venv", "constraint": "large", "partition": "cpu"})
    assert none.status_code == 403, none.text
    assert "has no node with the features 'large'" in none.json()["message"]
    assert jobs_ever(demo) == before
    page = ada.http.get("/hub/spawn").text
    assert 'name="constraint"' in page and 'data-partitions="gpu"' in page
    ada.launch({"environment": "python-venv", "constraint": "small&avx512", "time": "0:30:00"})
    assert ada.wait_ready()["user_options"]["constraint"] == "small&avx512"
    (job,) = living_jobs(demo, "ada")
    assert job.node in ("gpu05", "gpu06")
    assert "Features=small&avx512 " in demo.run(["scontrol", "show", "job", job.id, "-o"]).stdout
