"""The launch page: a GET of it makes nothing, whatever is in its address and whatever runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import jobs_ever, living_jobs

ADDRESSES = (
    "/hub/spawn",
    "/hub/spawn?opt-environment=python-venv&opt-time=0:30:00",
    "/hub/spawn?environment=python-venv&time=0:30:00",
    "/hub/spawn/ada?opt-environment=python-venv",
    "/hub/spawn/ada/never-made",
    "/hub/spawn/ada/never-made?display_name=Never%20made&opt-environment=python-venv",
    "/hub/spawn/ada/course-dl101?opt-course=dl101",
    "/hub/spawn-pending/ada",
    "/hub/user/ada/lab",
)
MAKES_A_SERVER = re.compile(r'<form[^>]*id="spawn_form" action="([^"]*)"')


def servers(person: Person) -> dict[str, Any]:
    """Return the rows of the Hub's database, of stopped servers too."""
    model = person.api("GET", f"/users/{person.name}?include_stopped_servers").json()
    return {name: (server["ready"], server["pending"]) for name, server in model["servers"].items()}


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_get_makes_no_server_no_job_and_no_row(demo: Any, ada: Person, address: str) -> None:
    before = servers(ada), jobs_ever(demo)
    answer = ada.http.get(address)
    assert answer.status_code in (200, 424), answer.text
    assert (servers(ada), jobs_ever(demo)) == before


def test_a_second_session_is_started_while_the_first_one_runs(
    demo: Any, ada: Person, person: Callable[[str], Person]
) -> None:
    ada.launch({"environment": "python-venv", "time": "0:30:00"})
    ada.wait_ready()
    before = servers(ada), jobs_ever(demo)
    for address in ADDRESSES[:4]:
        page = ada.http.get(address)
        assert page.status_code == 200 and page.url.path.startswith("/hub/spawn"), page.url
        assert "open it</a>, or start another (“Session 2”) here" in page.text
    # An admin's page for the user is the same, and leads to the user's session.
    assert "or start another" in person("grace").http.get("/hub/spawn/ada").text
    assert (servers(ada), jobs_ever(demo)) == before

    action = unescape(MAKES_A_SERVER.findall(page.text)[0])
    try:
        started = ada.http.post(action, data={"environment": "python-venv", "time": "0:30:00"})
        assert started.status_code == 200, started.text
        ada.wait_ready("session-2")
        assert ada.server("session-2")["display_name"] == "Session 2"
        jobs = wait_until("two jobs", lambda: len(living_jobs(demo, "ada")) == 2)
        assert jobs and ada.server()["ready"]
        assert "start another (“Session 3”) here" in ada.http.get("/hub/spawn").text
    finally:
        ada.stop("session-2")
        ada.api("DELETE", ada.server_path("session-2"), {"remove": True})
