"""A session that ends says why, in words, on its page."""

from __future__ import annotations

from typing import Any

import pytest
from brief_session import brief_session
from hub_client import Person, wait_until
from jobs import living_jobs, only_job
from terminal import terminal


@pytest.fixture(scope="module", autouse=True)
def short_session(demo: Any) -> Person:
    student = Person(demo.url, "student02")
    brief_session(demo, student)
    return student


def wait_for_end(someone: Person) -> str:
    """Wait until the Hub has seen the end; the text of the session's page."""
    wait_until("the end is seen", lambda: not someone.server().get("ready"), timeout=90)
    wait_until("the stop is over", lambda: not someone.server().get("pending"))
    return someone.page(f"/hub/user/{someone.name}/")


def launch(ada: Person, **options: Any) -> None:
    answer = ada.launch({"environment": "python-venv", **options})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()


def test_scancel(demo: Any, ada: Person) -> None:
    launch(ada)
    demo.run(["scancel", only_job(demo, "ada")], user=demo.user("ada"))
    assert "cancelled in Slurm" in wait_for_end(ada)


def test_out_of_memory(demo: Any, ada: Person) -> None:
    launch(ada, memory="400M")
    # In the foreground: Slurm's linuxproc tracking loses what outlives its parent.
    hog = "python3 -c 'import time; x = bytes([1]) * 10**9; time.sleep(99)'"
    terminal(ada, hog, wait=False)
    page = wait_for_end(ada)
    assert "more memory than requested" in page
    assert "400 MB" in page


def test_a_node_that_is_gone(demo: Any, ada: Person) -> None:
    launch(ada, partition="cpu")
    node = living_jobs(demo, "ada")[0].node
    demo.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"])
    try:
        assert "node failed" in wait_for_end(ada)
    finally:
        # slurmd has brought it back by itself where it was quick (ReturnToService).
        demo.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False)


def test_a_start_that_fails_shows_its_log(demo: Any, ada: Person) -> None:
    """An environment whose server cannot run: the reason and the log's end are on the page."""
    broken = demo.environments / "broken.yaml"
    broken.write_text("name: broken\ntitle: Broken\nkind: venv\npath: /nonexistent\n")
    broken.chmod(0o644)
    try:
        answer = wait_until(
            "the catalog has the new file",
            lambda: (
                (a := ada.launch({"environment": "broken"}))
                and "environment with this name" not in a.text
                and a
            ),
        )
        assert answer.status_code >= 400 or answer.status_code == 202
        wait_until("the start failed", lambda: not ada.server().get("pending"))
        page = ada.page("/hub/user/ada/")
        assert "could not start" in page
        assert "/nonexistent/bin/python3" in page
    finally:
        broken.unlink()


def test_shut_down_from_inside(demo: Any, ada: Person) -> None:
    launch(ada)
    assert ada.session("POST", "api/shutdown").status_code == 200
    assert "shut down from inside" in wait_for_end(ada)


def test_walltime(short_session: Person) -> None:
    wait_until("the time is over", lambda: not short_session.server().get("ready"), timeout=150)
    page = wait_for_end(short_session)
    assert "reached its time limit of 1 min." in page, page
