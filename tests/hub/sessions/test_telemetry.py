"""A real session reports of itself to the service, and nobody else can do it for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hub_client import Person, wait_until
from terminal import session_token

from portal.models.scope import TELEMETRY_REPORT, right


def ask(someone: Person, path: str) -> dict[str, Any]:
    """The answer of the service's API to this person."""
    if not someone.token:
        someone.api("GET", "/user")
    answer = httpx.get(
        f"{someone.url}/services/portal/api/v1/{path}",
        headers={"Authorization": f"token {someone.token}"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def report(url: str, token: str, job_id: str, *gpus: dict[str, Any], **more: Any) -> httpx.Response:
    """Post a report as ``token``. JSON as Python writes it: NaN is possible."""
    named = [{"index": number, **gpu} for number, gpu in enumerate(gpus)]
    return httpx.post(
        f"{url}/services/portal/api/v1/telemetry",
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        content=json.dumps({"job_id": job_id, "gpus": named, **more}),
        timeout=60,
    )


def launch(someone: Person, **options: Any) -> dict[str, Any]:
    """Launch and wait until it runs; the session as the API tells it."""
    assert someone.launch({"environment": "python-venv", **options}).status_code in (201, 202)
    someone.wait_ready()

    def running() -> dict[str, Any] | None:
        found = ask(someone, "sessions")["items"]
        return next((one for one in found if one["state"] == "running"), None)

    return dict(wait_until("the session is recorded as running", running))


@pytest.fixture
def session(demo: Any, ada: Person) -> Iterator[tuple[dict[str, Any], str]]:
    """Ada's session with a GPU, and its token."""
    item = launch(ada, gpus=1)
    yield item, session_token(ada)


def denied(grace: Person, actor: str) -> list[tuple[str, str]]:
    found = ask(grace, f"audit?actor={actor}&outcome=refused&limit=20")["items"]
    return [(entry["action"], entry["target"]) for entry in found]


def test_a_session_reports_its_memory(ada: Person, session: tuple[dict[str, Any], str]) -> None:
    item, _ = session

    def peak() -> int | None:
        return ask(ada, f"sessions/{item['id']}")["efficiency"]["memory_peak"]

    # JupyterLab's server alone takes about 100 MiB; the demo's interval is 10 s.
    assert 30 < wait_until("the session has reported its memory", peak, 240) < 4096


def test_a_report_of_the_sessions_own_token_is_taken(
    demo: Any, ada: Person, session: tuple[dict[str, Any], str]
) -> None:
    item, token = session
    gpu = {"utilization": 55, "memory_used": 1000, "memory_total": 16000}

    def taken() -> bool:
        answer = report(demo.url, token, item["job_id"], gpu, memory_used=2345)
        # The session itself reports too: one of both can be early.
        assert answer.status_code in (204, 429, 503), answer.text
        return answer.status_code == 204

    wait_until("the report is taken", taken, every=1)
    assert ask(ada, f"sessions/{item['id']}")["efficiency"]["memory_peak"] >= 2345


@pytest.mark.parametrize(
    "gpu",
    [
        {"utilization": 1e9},
        {"utilization": -1},
        {"utilization": float("nan")},
        {"memory_used": 10**9},
        {"memory_used": 2, "memory_total": 1},
    ],
)
def test_impossible_reports_are_refused(
    demo: Any, session: tuple[dict[str, Any], str], gpu: dict[str, Any]
) -> None:
    item, token = session

    def refused() -> httpx.Response | None:
        answer = report(demo.url, token, item["job_id"], gpu)
        return None if answer.status_code in (429, 503) else answer

    answer = wait_until("an answer", refused, every=1)
    assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_forged_reports_are_refused_and_leave_a_line(
    demo: Any,
    ada: Person,
    barbara: Person,
    person: Callable[[str], Person],
    session: tuple[dict[str, Any], str],
) -> None:
    item, _ = session
    grace, job_id = person("grace"), item["job_id"]
    gpu = {"utilization": 99, "memory_used": 1, "memory_total": 2}

    answer = report(demo.url, ada.token, job_id, gpu)
    assert answer.status_code == 403
    assert right(TELEMETRY_REPORT) in answer.json()["error"]["message"]
    assert ("denied", "api/v1/telemetry") in denied(grace, "ada")
    grace.api("GET", "/user")
    assert report(demo.url, grace.token, job_id, gpu).status_code == 403, "admins neither"
    assert report(demo.url, "no-such-token", job_id, gpu).status_code == 403

    other = launch(barbara)
    token = session_token(barbara)

    def judged() -> httpx.Response | None:
        answer = report(demo.url, token, job_id, gpu)
        return None if answer.status_code in (429, 503) else answer

    answer = wait_until("an answer", judged, every=1)
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == f"Job {job_id} is not this session's job."
    assert ("report-telemetry", f"job {job_id}") in denied(grace, "barbara")

    # A session's token is good for nothing else here, and for nothing once its session is over.
    header = {"Authorization": f"token {token}"}
    for path in ("cluster", "jobs", "sessions", f"sessions/{item['id']}"):
        address = f"{demo.url}/services/portal/api/v1/{path}"
        answer = httpx.get(address, headers=header, timeout=60)
        assert answer.status_code == 403, path
    barbara.stop()
    wait_until(
        "the session is over for the service",
        lambda: report(demo.url, token, other["job_id"]).status_code == 403,
        every=2.5,
    )
