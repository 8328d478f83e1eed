"""The port route: one integer from the session's own token, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hub_client import Person, with_session
from terminal import session_token


@pytest.fixture(scope="module")
def ada(person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada with one session for all tests of this file."""
    yield from with_session(person("ada"), {"environment": "python-venv"})


@pytest.fixture(scope="module")
def token(ada: Person) -> str:
    """The token of Ada's running session, read as she could: from its environment."""
    return session_token(ada)


def post(demo: Any, body: str, token: str, route: str = "portal/port") -> httpx.Response:
    return httpx.post(
        f"{demo.url}/hub/api/{route}",
        content=body,
        headers={"Authorization": f"token {token}"},
        timeout=60,
    )


@pytest.mark.parametrize(
    "body",
    [
        '{"port": 8888, "exec_prefix": "id"}',
        '{"exec_prefix": "id"}',
        '{"cmd": ["id"]}',
        '{"port": "8888"}',
        '{"port": 8888.0}',
        '{"port": true}',
        '{"port": null}',
        '{"port": [8888]}',
        '{"port": 80}',
        '{"port": 70000}',
        '{"port": -1}',
        "[8888]",
        "8888",
        "{",
        "",
        '{"port": 8888' + " " * 100 + "}",
    ],
)
def test_anything_but_one_integer_port_is_refused(
    demo: Any, ada: Person, token: str, body: str
) -> None:
    answer = post(demo, body, token)
    assert answer.status_code == 400, answer.text
    assert "port" in answer.json()["message"]
    assert ada.server()["ready"]


def test_the_sessions_own_token_sets_its_port(demo: Any, ada: Person, token: str) -> None:
    assert post(demo, '{"port": 8888}', token).status_code == 201
    assert ada.server()["ready"]


def test_a_persons_token_is_not_a_sessions(demo: Any, ada: Person, token: str) -> None:
    assert post(demo, '{"port": 8888}', ada.token).status_code == 404
    assert post(demo, '{"port": 8888}', "0" * 32).status_code == 403


def test_the_stock_route_is_gone(demo: Any, ada: Person, token: str) -> None:
    answer = post(demo, '{"exec_prefix": "touch /tmp/owned"}', token, "batchspawner")
    assert answer.status_code == 404
