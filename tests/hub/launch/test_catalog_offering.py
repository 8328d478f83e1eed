"""What the Hub offers follows what the tests said; a person's own environments are theirs alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller, error_of
from hub_client import Person, wait_until

BROKEN = "broken-container"


@pytest.fixture(scope="module")
def grace(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "grace") as caller:
        yield caller


@pytest.fixture(scope="module")
def ada_calls(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "ada") as caller:
        yield caller


def item(caller: Caller, name: str, **query: Any) -> dict[str, Any] | None:
    items = caller.get("environments", params=query).json()["items"]
    return next((one for one in items if one["name"] == name), None)


@pytest.fixture(scope="module")
def broken(demo: Any, grace: Caller) -> Iterator[dict[str, Any]]:
    """A container whose image is none, once its test is over."""
    image = demo.home.demo / "broken.sif"
    image.write_bytes(b"this is no image\n")
    image.chmod(0o644)
    file = demo.environments / f"{BROKEN}.yaml"
    file.write_text(
        f"name: {BROKEN}\ntitle: Broken\nkind: container\nimage: {image}\nmax_gpus: 0\n"
    )
    try:
        yield wait_until(
            "the broken image is tested",
            lambda: (
                (found := item(grace, BROKEN, all=True))
                and found["reason"].startswith("The test failed")
                and found
            ),
            120,
        )
    finally:
        file.unlink()
        image.unlink()


def test_the_demos_container_was_tested_by_itself(grace: Caller, ada_calls: Caller) -> None:
    found = item(ada_calls, "jupyterlab")
    assert found is not None
    assert set(found["gpu_types"]) == {"v100", "t4"}
    assert found["tested_at"]
    tests = grace.items("environment-tests")
    mine = [one for one in tests if one["name"] == "jupyterlab" and one["asker"] == "portal"]
    assert {one["gpu_type"] for one in mine} == {"", "v100", "t4"}


def test_a_broken_image_is_refused_with_its_reason(
    broken: dict[str, Any], ada: Person, ada_calls: Caller
) -> None:
    assert broken["offered"] is False
    assert item(ada_calls, BROKEN) is None
    answer = ada.launch({"environment": BROKEN})
    assert answer.status_code in (400, 403), answer.text
    assert "No environment with this name is available to you" in answer.json()["message"]
    assert not ada.server()


def test_the_log_of_a_test_is_for_admins(
    broken: dict[str, Any], grace: Caller, ada_calls: Caller
) -> None:
    test = next(one for one in grace.items("environment-tests") if one["name"] == BROKEN)
    text = grace.get(f"environment-tests/{test['id']}/log").json()
    assert text["next"] > 0
    assert "PORTAL " not in text["text"]
    with grace.stream("GET", f"environment-tests/{test['id']}/events") as answer:
        lines = list(answer.iter_lines())
    assert "event: log" in lines
    assert lines.index("event: test") > 0
    for path in ("", "/log", "/events"):
        refused = ada_calls.get(f"environment-tests/{test['id']}{path}")
        assert refused.status_code == 404, refused.text
    assert ada_calls.get("builds").status_code == 403
    assert ada_calls.post("environments/test-all", json={}).status_code == 403
    assert error_of(grace.get("builds/4711/log"))["message"] == "There is no build 4711."


def test_a_launch_needs_neither_service_nor_database_anew(demo: Any, ada: Person) -> None:
    """The Hub keeps what it knew while the database cannot be asked."""
    database = demo.home.demo / "hub" / "portal.sqlite"
    assert "JupyterLab" in ada.page("/hub/spawn")
    database.rename(database.with_suffix(".away"))
    try:
        assert "JupyterLab" in ada.page("/hub/spawn")
    finally:
        database.with_suffix(".away").rename(database)


def test_the_command_of_the_night(demo: Any, grace: Caller) -> None:
    words = [sys.executable, "-m", "portal", "environments", "test"]
    place = f"--url={demo.url}/services/portal/"
    token = f"--token-file={demo.words['environments_token']}"
    root = Path(__file__).resolve().parents[3]
    run = {"capture_output": True, "text": True, "timeout": 300, "cwd": root, "check": False}
    done = subprocess.run([*words, "python-venv", place, token], **run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "python-venv without GPUs: passed." in done.stdout
    missing = subprocess.run([*words, "nothing-here", place, token], **run)
    assert missing.returncode == 1
    assert missing.stderr.startswith("There is no environment 'nothing-here'")
    neither = subprocess.run([*words, place, token], **run)
    assert "Name an environment" in neither.stderr


# -- one's own -------------------------------------------------------------------------------


def test_an_environment_of_ones_own(
    demo: Any, ada: Person, ada_calls: Caller, grace: Caller, person: Callable[[str], Person]
) -> None:
    venv = demo.words["venv"]
    made = ada_calls.post(
        "own-environments", json={"title": "My Torch", "kind": "venv", "path": venv}
    )
    assert made.status_code == 201, made.text
    name = made.json()["name"]
    try:
        assert (name, made.json()["state"]) == ("ada.my-torch", "testing")
        again = ada_calls.post(
            "own-environments", json={"title": "My Torch", "kind": "venv", "path": venv}
        )
        assert again.status_code == 409
        ready = wait_until(
            "its test has passed",
            lambda: (
                (mine := ada_calls.get("own-environments").json()["items"])
                and mine[0]["state"] != "testing"
                and mine[0]
            ),
            180,
        )
        assert (ready["state"], ready["reason"]) == ("ready", ""), ready
        test = ready["tests"][0]
        job = demo.run(["scontrol", "show", "job", test["job_id"]]).stdout
        if demo.people:
            assert "UserId=ada(" in job, "it runs as the person, never as a service"
        assert ada_calls.get(f"environment-tests/{test['id']}/log").status_code == 200
        assert item(ada_calls, name) is not None
        assert item(grace, name) is None
        assert grace.get(f"environments/{name}").status_code == 404
        assert grace.get("own-environments").json()["items"] == []
        barbara = person("barbara")
        refused = barbara.launch({"environment": name})
        assert "No environment with this name is available to you" in refused.json()["message"]
        page = wait_until("it is on the page", lambda: "My Torch" in ada.page("/hub/spawn"))
        assert page
    finally:
        gone = ada_calls.delete(f"own-environments/{name}")
        assert gone.status_code == 204, gone.text
    assert item(ada_calls, name) is None
    assert ada_calls.delete(f"own-environments/{name}").status_code == 404


@pytest.mark.parametrize(
    "path", ["relative/path", "/home/../etc/shadow", "/a,b", "/a:b", "", "/x\n/y", "docker://a/b"]
)
def test_paths_that_are_refused(ada_calls: Caller, path: str) -> None:
    for kind in ("container", "venv"):
        body = {"title": "Bad", "kind": kind, "path": path}
        answer = ada_calls.post("own-environments", json=body)
        assert answer.status_code == 400, answer.text
        assert error_of(answer)["message"]
    assert ada_calls.get("own-environments").json()["items"] == []


def test_neither_binds_nor_variables_nor_modules(ada_calls: Caller) -> None:
    body = {"title": "Bad", "kind": "venv", "path": "/opt/x"}
    for more in ({"binds": []}, {"variables": {}}, {"owner": "grace"}, {"kind": "modules"}):
        assert ada_calls.post("own-environments", json={**body, **more}).status_code == 400


def test_what_only_admins_can_read_stays_so(demo: Any) -> None:
    """The token of the nightly test is the Hub's account's alone."""
    assert Path(demo.words["environments_token"]).stat().st_mode & 0o077 == 0
