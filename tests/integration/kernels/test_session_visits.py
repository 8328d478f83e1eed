"""Who enters a project's session: a real server of a session; the Hub and the service say what the
test tells them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from session_server import wait_for
from terminal import type_in, until_closed
from test_session_guests import (
    OWN,
    PREFIX,
    PROMISED,
    Around,
    a_terminal,
    ask,
    open_socket,
    session_of,
)


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Around]:
    with session_of(
        tmp_path_factory, PORTAL_PROJECT="proteins", PORTAL_PROJECT_ROLE="member"
    ) as made:
        yield made


async def test_a_visitor_is_in_as_long_as_the_portal_says(around: Around) -> None:
    assert ask(around, "ada") == 200
    for other in ("barbara", "grace"):  # the Hub would let both in: grace is an admin
        assert ask(around, other) == 403
    assert ask(around, OWN) == 403  # programs in the session can read its own token
    path = f"terminals/websocket/{a_terminal(around)}"
    around.guests = {"barbara": 600.0}
    wait_for(lambda: ask(around, "barbara") == 200)
    visitor = await open_socket(around, "barbara", path)
    await type_in(visitor, "echo $((6 * 7))", "42")
    around.guests = {}
    assert await until_closed(visitor) < PROMISED
    assert ask(around, "barbara") == 403 and ask(around, "ada") == 200


async def test_the_owner_alone_answers_and_there_is_no_class(around: Around) -> None:
    around.guests = {"barbara": 600.0}
    wait_for(lambda: ask(around, "barbara") == 200)
    url = f"http://127.0.0.1:{around.port}{PREFIX}portal/help"
    for who, status in (("barbara", 403), ("ada", 200)):
        body, headers = {"id": 7, "answer": "end"}, {"Authorization": f"token token-of-{who}"}
        assert httpx.post(url, json=body, headers=headers, timeout=30).status_code == status
    assert around.answers("POST", "session/help/7") == [{"answer": "end"}]
    assert ask(around, "ada", "portal/hand", "POST") == 404  # a raised hand
    assert not around.answers("PUT", "session/presence")
    around.guests = {}
