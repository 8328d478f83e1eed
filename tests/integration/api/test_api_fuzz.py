"""The API against what schemathesis makes of its own OpenAPI document, on the demo.

Asked for: no answer of 500 or more, and no status, content type, content or method that the
document does not name. Left out are two checks that ask for another API: a request without a login
gets 403 here, as from the Hub, not 401; and what is well formed by itself can be refused together
(an end before its start).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from api_client import API, Caller
from hub_client import wait_until

from portal.handlers.admin.openapi import document
from portal.handlers.routes import endpoints

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
# The first never ends (tests/integration/api/test_api.py has it); the second would test the whole
# catalog in jobs; the third says 503 where a registry is away, as all of them are here.
LEFT_OUT = ("/events", "/environments/test-all", "/registries/{registry}/check")
# schemathesis takes names of jobs and nodes from answers. These could stop someone's work, so they
# are asked of something that is not there, with whatever bodies and queries.
NOBODYS = {
    "/builds/{build_id}/cancel": {"build_id": "999999999"},
    "/builds/{build_id}/retry": {"build_id": "999999999"},
    "/environment-requests/{request_id}/answer": {"request_id": "999999999"},
    "/environment-tests/{test_id}/cancel": {"test_id": "999999999"},
    "/jobs/{job_id}/cancel": {"job_id": "999999999"},
    "/jobs/{job_id}/hold": {"job_id": "999999999"},
    "/jobs/{job_id}/release": {"job_id": "999999999"},
    "/nodes/{node}/drain": {"node": "nowhere"},
    "/nodes/{node}/resume": {"node": "nowhere"},
    "/sessions/{session_id}/stop": {"session_id": "nobodys"},
    "/sessions/{session_id}/open": {"session_id": "nobodys"},
    "/sessions/{session_id}/tensorboard": {"session_id": "nobodys"},
    "/sessions/{session_id}/extend": {"session_id": "nobodys"},
    "/sessions/{session_id}/snooze": {"session_id": "nobodys"},
    "/sessions/{session_id}/move": {"session_id": "nobodys"},
    "/run-form/{session_id}/ask/{part}": {"session_id": "nobodys"},
    "/servers/{server}": {"server": "nobodys"},
    # One without a version: a definition of chance has no environment of the demo.
    "/model-catalog/{model}/test": {"model": "nobodys"},
    "/models/{name}": {"name": "nobodys"},
    "/models/{name}/shares": {"name": "nobodys"},
    "/models/{name}/trial": {"name": "nobodys"},
    "/models/{name}/versions": {"name": "nobodys"},
    "/registries/{registry}": {"registry": "nobodys.invalid"},
    "/users/{user}": {"user": "nobodys"},
    "/own-environments/{environment}": {"environment": "nobodys"},
    "/own-environments/{environment}/test": {"environment": "nobodys"},
    "/environments/{environment}": {"environment": "nobodys"},
    **{
        f"/environments/{{environment}}/{action}": {"environment": "nobodys"}
        for action in (
            "deprecate", "favourite", "launch", "offer-again", "rollback", "test", "withdraw",
            "versions/{number}/build", "versions/{number}/preview", "versions/{number}/publish",
            "versions/{number}/test",
        )
    },
    # Whatever is done to a course and to the people in it.
    **{
        path: {"course": "nobodys"}
        for path, methods in document(endpoints(), "/services/portal/")["paths"].items()
        if path.startswith("/courses/{course}") and set(methods) - {"get", "parameters"}
    },
    **{
        path: {"project": "nobodys"}
        for path, methods in document(endpoints(), "/services/portal/")["paths"].items()
        if path.startswith("/projects/{project}") and set(methods) - {"get", "parameters"}
    },
}  # fmt: skip
HARMLESS = {
    "/courses",  # of an environment that there is not
    "/courses/validate",
    "/projects",  # of an environment or an account that there is not, or else a request
    "/projects/import",
    "/announcements",
    "/announcements/{announcement_id}",
    "/environment-comparison",
    "/environment-requests",
    "/environments",  # a definition of chance is none
    "/environments/validate",
    "/images/resolve",
    "/replica-sets/{id}",  # of a kind that there is not
    "/own-environments",
    "/estimates",
    "/notices",
    "/telemetry",
    # Of one's own runs, and there is none.
    "/benchmarks/runs/{run}",
    "/runs/{run}",
    "/runs/{run}/again",
    "/runs/{run}/points/{point}/kernel",
    "/runs/{run}/record",
    "/runs/{run}/repetitions",
    "/runs/{run}/shares",
    "/runs/{run}/shares/{user}",
    "/runs/{run}/tensorboard",
    "/runs/schedules",
    "/runs/schedules/{schedule}",
    # These take a session's own token only, which nobody has here.
    "/session/endpoint",
    "/session/estimates",
    "/session/extend",
    "/session/hand",
    "/session/help/{help_id}",
    "/session/presence",
    "/session/clusters/{id}",
    "/session/collects/{id}",
    "/session/handouts/report",
    "/session/kept-clusters/{id}",
    "/session/kernels",
    "/session/kernels/estimates",
    "/session/kernels/{kernel}",
    "/session/measurements",
    "/session/models/{name}",
    "/session/models/{name}/shares",
    "/session/models/{name}/versions",
    "/session/move",
    "/session/points",
    "/session/points/ask",
    "/session/points/logged",
    "/session/points/output",
    "/session/runs",
    "/session/runs/estimates",
    "/session/runs/restored",
    "/session/runs/unknown",
    "/session/runs/unread",
    "/session/snooze",
    "/session/stop",
    "/session/startup",
}
HOOKS = f"""
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path_parameters:
        case.path_parameters.update({NOBODYS!r}.get(case.path, {{}}))
"""
CONFIG = """
hooks = "hooks.py"
headers = { Authorization = "token ${FUZZ_TOKEN}" }

[checks.negative_data_rejection]
# schemathesis's own, and 413: a text beyond its longest can be beyond the longest body, too.
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]

# 503 where a registry is away, as all of them are here.
[[operations]]
include-path = "/images/resolve"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]
"""


def test_every_action_is_asked_of_nobody() -> None:
    """A new one is not tried on the demo's own jobs and nodes by accident."""
    acts = {
        path
        for path, methods in document(endpoints(), "/services/portal/")["paths"].items()
        if set(methods) - {"get", "parameters"}
    }
    assert acts - {*LEFT_OUT} == {*NOBODYS, *HARMLESS}


@pytest.mark.parametrize("name", ["ada", "grace"])
def test_fuzz(demo: Any, name: str, tmp_path: Path) -> None:
    with Caller(demo.url, name) as caller:
        wait_until("the service has heard from Slurm", lambda: caller.get("board").is_success)
        before = announcements(caller)
        done = run(demo, caller, tmp_path)
        for id_ in announcements(caller) - before:
            caller.delete(f"announcements/{id_}")
        paths = caller.get("openapi.json").json()["paths"]
        operations = sum(len({*methods} - {"parameters"}) for methods in paths.values())
    assert done.returncode == 0, done.stdout[-10_000:]
    # All but those, and the document itself, which schemathesis leaves out.
    assert f"Tested: {operations - len(LEFT_OUT) - 1}" in done.stdout, done.stdout[-3000:]


def announcements(caller: Caller) -> set[int]:
    return {item["id"] for item in caller.items("announcements", limit=500)}


def run(demo: Any, caller: Caller, place: Path) -> subprocess.CompletedProcess[str]:
    """schemathesis as its own command: what it makes for pytest depends on pytest's version."""
    # The service's own address: the proxy answers malformed requests by itself.
    port = json.loads((demo.home.demo / "ports.json").read_text())["service"]
    (place / "hooks.py").write_text(HOOKS)
    (place / "schemathesis.toml").write_text(CONFIG)
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"http://127.0.0.1:{port}{API}openapi.json",
            *(f"--exclude-path={path}" for path in LEFT_OUT),
            f"--checks={','.join(CHECKS)}",
            "--phases=examples,coverage,fuzzing",
            "--max-examples=10",
            "--generation-deterministic",
            "--continue-on-failure",
            "--suppress-health-check=all",
            "--request-timeout=120",
            "--warnings=off",
            "--no-color",
        ],
        cwd=place,
        env={**os.environ, "FUZZ_TOKEN": caller.person.token},
        capture_output=True,
        text=True,
        timeout=1800,
    )
