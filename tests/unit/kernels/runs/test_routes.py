"""Routes of the broker for runs: what is passed on to the portal, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from portal_session.runs.routes import routes
from portal_session.service import ServiceError
from served import Answer, served
from tornado.web import Application

ID = "0123abcd-ffff-4c8e"


async def answered(method: str, path: str, body: bytes = b"") -> tuple[Answer, list[Any]]:
    asked: list[Any] = []

    async def ask(*request: Any) -> dict[str, Any]:
        asked.append(request)
        if request[1].endswith("ffff"):
            raise ServiceError("You have no such run.", 404)
        return {"id": ID}

    async with served(Application(routes(ask))) as server:
        return await server.ask(method, path, body=body), asked


@pytest.mark.parametrize(
    ("method", "path", "body", "request_"),
    [
        ("GET", "/runs", b"", ("GET", "runs?limit=200")),
        ("POST", "/runs", b'{"id": "x"}', ("POST", "session/runs", {"id": "x"})),
        ("GET", "/runs/choices", b"", ("GET", "session/runs/choices")),
        ("GET", f"/runs/{ID}", b"", ("GET", f"runs/{ID}")),
        ("DELETE", f"/runs/{ID}", b"", ("DELETE", f"runs/{ID}")),
        ("GET", "/runs/schedules", b"", ("GET", "runs/schedules")),
        ("POST", "/runs/schedules", b'{"run": "x"}', ("POST", "runs/schedules", {"run": "x"})),
        ("DELETE", f"/runs/schedules/{ID}", b"", ("DELETE", f"runs/schedules/{ID}")),
        ("GET", f"/runs/{ID}/points", b"", ("GET", f"runs/{ID}/points")),
        (
            "POST",
            f"/runs/{ID}/again",
            b'{"time": "1:00"}',
            ("POST", f"runs/{ID}/again", {"time": "1:00"}),
        ),
        ("POST", f"/runs/{ID}/repetitions", b"{}", ("POST", f"runs/{ID}/repetitions")),
        (
            "GET",
            f"/runs/{ID}/points?state=failed&limit=5&other=x&sort=%26a%3D1",
            b"",
            ("GET", f"runs/{ID}/points?state=failed&sort=%26a%3D1&limit=5"),
        ),
    ],
)
async def test_what_is_passed_on(method: str, path: str, body: bytes, request_: Any) -> None:
    answer, asked = await answered(method, path, body)
    assert (answer.status, json.loads(answer.text)) == (200, {"id": ID})
    assert asked == [request_]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/runs/../session", b"", 404),
        ("GET", "/runs/0123ABCD", b"", 404),
        ("GET", f"/runs/{ID}/other", b"", 404),
        ("POST", "/runs", b"[]", 400),
        ("POST", "/runs", b"{", 400),
        ("POST", f"/runs/{ID}", b"{}", 405),
        ("POST", f"/runs/{ID}/again", b"[]", 400),
        ("GET", f"/runs/{ID}/again", b"", 405),
        ("DELETE", "/runs", b"", 405),
        ("DELETE", "/runs/schedules", b"", 405),
        ("DELETE", "/runs/schedules/../x", b"", 404),
        ("GET", f"/runs/schedules/{ID}", b"", 405),
    ],
)
async def test_what_is_not_passed_on(method: str, path: str, body: bytes, status: int) -> None:
    answer, asked = await answered(method, path, body)
    assert (answer.status, asked) == (status, [])


async def test_a_refusal_keeps_its_sentence() -> None:
    answer, _ = await answered("GET", "/runs/0123ffff")
    assert answer.status == 404
    assert json.loads(answer.text) == {"message": "You have no such run."}
