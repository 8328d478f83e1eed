"""A real session asks about itself and is extended: by itself, by its owner, by an admin."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from hub_client import Person, wait_until, with_session
from terminal import session_token

API = "/services/portal/api/v1/"


class Session(NamedTuple):
    """One that runs, with the token that its server holds."""

    owner: Person
    id: str
    job_id: str
    token: str

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> httpx.Response:
        return call(self.owner.url, method, path, body, token or self.token)


def call(url: str, method: str, path: str, body: Any, token: str) -> httpx.Response:
    return httpx.request(
        method,
        url + API + path,
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        content=None if body is None else json.dumps(body),
        timeout=60,
    )


def said(answer: httpx.Response) -> str:
    found = answer.json()
    return str(found["error"]["message"] if "error" in found else found["message"])


@pytest.fixture(scope="module")
def session(person: Callable[[str], Person]) -> Iterator[Session]:
    """Ada's, with half an hour, for all tests here."""
    for ada in with_session(person("ada"), {"environment": "python-venv", "time": "0:30:00"}):
        yield _known(ada, session_token(ada))


def _known(ada: Person, token: str) -> Session:
    def known() -> Any:
        answer = call(ada.url, "GET", "session", None, token)
        return answer.json() if answer.status_code == 200 else None

    found = wait_until("the portal knows the session", known)
    return Session(ada, found["session_id"], found["job_id"], token)


@pytest.fixture
def grace(person: Callable[[str], Person]) -> Person:
    someone = person("grace")
    someone.api("GET", "/user")  # has a token afterwards
    return someone


def limit_of(demo: Any, job_id: str) -> str:
    return str(demo.run(["squeue", "-h", "-j", job_id, "-o", "%l"]).stdout.strip())


def newest_line(grace: Person, session: Session) -> dict[str, Any]:
    answer = call(grace.url, "GET", f"audit?target=session%20{session.id}", None, grace.token)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["items"][0])


def test_a_session_knows_its_time_and_extends_itself(
    demo: Any, grace: Person, session: Session
) -> None:
    before = session.ask("GET", "session").json()
    assert before["user"] == "ada"
    assert before["ends_at"] - before["started_at"] == 1800
    assert before["now"] < before["ends_at"]
    assert before["extend"]["allowed"], before["extend"]
    answer = session.ask("POST", "session/extend", {"minutes": 30, "ends_at": before["ends_at"]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["ends_at"] == before["ends_at"] + 1800
    assert limit_of(demo, session.job_id) == "1:00:00"
    # At once, for the status bar.
    assert session.ask("GET", "session").json()["ends_at"] == before["ends_at"] + 1800
    line = newest_line(grace, session)
    assert (line["actor"], line["action"], line["outcome"]) == ("ada", "extend-session", "done")
    assert "By 30 min" in line["detail"]
    # The other window still shows the old end.
    again = session.ask("POST", "session/extend", {"minutes": 30, "ends_at": before["ends_at"]})
    assert again.status_code == 409
    assert limit_of(demo, session.job_id) == "1:00:00"


def test_a_reservation_of_its_node_is_the_latest_end(demo: Any, session: Session) -> None:
    found = session.ask("GET", "session").json()
    demo.run(
        [
            *("scontrol", "create", "reservation", "ReservationName=maintenance"),
            *(f"Nodes={found['node']}", "StartTime=now+90minutes", "Duration=60", "Users=root"),
            "Flags=MAINT",
        ],
        user=demo.user("slurm"),
    )
    try:
        answer = session.ask("POST", "session/extend", {"minutes": 60})
        assert answer.status_code == 403, answer.text
        assert "'maintenance' needs the session's node" in said(answer)
        assert "can be extended by at most" in said(answer)
    finally:
        demo.run(
            ["scontrol", "delete", "reservation=maintenance"], user=demo.user("slurm"), check=False
        )


def test_its_owner_extends_it_and_the_page_is_told(demo: Any, session: Session) -> None:
    detail = session.ask("GET", f"sessions/{session.id}", token=session.owner.token).json()
    assert detail["extend"]["allowed"]
    assert detail["time_left"] > 0
    answer = session.ask(
        "POST", f"sessions/{session.id}/extend", {"minutes": 1}, token=session.owner.token
    )
    assert answer.status_code == 200, answer.text
    after = session.ask("GET", f"sessions/{session.id}", token=session.owner.token).json()
    assert after["ends_at"] == detail["ends_at"] + 60


def test_an_admin_extends_it_and_others_do_not_even_see_it(
    grace: Person, person: Callable[[str], Person], session: Session
) -> None:
    answer = session.ask("POST", f"sessions/{session.id}/extend", {"minutes": 1}, token=grace.token)
    assert answer.status_code == 200, answer.text
    line = newest_line(grace, session)
    assert (line["actor"], line["owner"], line["outcome"]) == ("grace", "ada", "done")
    barbara = person("barbara")
    barbara.api("GET", "/user")
    answer = session.ask(
        "POST", f"sessions/{session.id}/extend", {"minutes": 1}, token=barbara.token
    )
    assert answer.status_code == 404
    line = newest_line(grace, session)
    assert (line["actor"], line["action"], line["outcome"]) == ("barbara", "denied", "refused")


def test_a_persons_token_is_no_sessions(grace: Person, session: Session) -> None:
    for method, path, body in (
        ("GET", "session", None),
        ("POST", "session/extend", {"minutes": 1}),
        ("POST", "session/startup", {"steps": {"page": 1}}),
    ):
        for token in (session.owner.token, grace.token):
            assert session.ask(method, path, body, token).status_code == 403, path


def test_how_its_start_went_is_recorded(session: Session) -> None:
    def told() -> Any:
        answer = session.ask("GET", f"sessions/{session.id}", token=session.owner.token)
        steps = {one["name"]: one for one in (answer.json()["startup"] or {}).get("steps", ())}
        return steps if "listening" in steps else None

    steps = wait_until("the session has told of its start", told, 240)
    assert list(steps) == ["queue", "container", "imports", "extensions", "listening", "rest"]
    assert steps["imports"]["seconds"] > 0.1
    assert all(0 <= one["seconds"] < 120 for one in steps.values())
    # The page tells its own part later, and only once.
    for seconds in (1.25, 0.5):
        body = {"steps": {"page": seconds}}
        assert session.ask("POST", "session/startup", body).status_code == 204
    assert told()["page"]["seconds"] == 1.25
