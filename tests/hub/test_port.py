"""The port route: one integer from the session's own token, and nothing else."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hub_client import Person


@pytest.fixture
def token(demo: Any, ada: Person) -> str:
    """The token of a running session of Ada's, read as she could: from its environment."""
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    script = (
        "import glob\n"
        "for name in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: data = open(name, 'rb').read()\n"
        "    except OSError: continue\n"
        "    for row in data.split(b'\\0'):\n"
        "        if row.startswith(b'JUPYTERHUB_API_TOKEN='):\n"
        "            print(row.decode().partition('=')[2]); raise SystemExit\n"
    )
    found = demo.run(["/usr/bin/python3", "-c", script], user=demo.user("ada")).stdout.strip()
    assert found
    return found


def post(demo: Any, body: str, token: str, route: str = "portal/port") -> httpx.Response:
    return httpx.post(
        f"{demo.url}/hub/api/{route}", content=body, headers={"Authorization": f"token {token}"}
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
def test_anything_but_one_integer_port_is_refused(demo: Any, ada: Person, body: str) -> None:
    # A token of Ada's own is refused before or after its body: never 2xx, never 5xx.
    ada.api("GET", "/user")
    assert 400 <= post(demo, body, ada.token).status_code < 500


def test_the_sessions_own_token_sets_a_port_and_nothing_else(
    demo: Any, ada: Person, token: str
) -> None:
    for body in ('{"port": 8888, "exec_prefix": "touch /tmp/owned"}', '{"exec_prefix": "id"}'):
        assert post(demo, body, token).status_code == 400
    assert ada.server()["ready"]


def test_a_persons_token_is_not_a_sessions(demo: Any, ada: Person, token: str) -> None:
    assert post(demo, '{"port": 8888}', ada.token).status_code == 404
    assert post(demo, '{"port": 8888}', "0" * 32).status_code == 403


def test_the_stock_route_is_gone(demo: Any, ada: Person, token: str) -> None:
    answer = post(demo, '{"exec_prefix": "touch /tmp/owned"}', token, "batchspawner")
    assert answer.status_code == 404
