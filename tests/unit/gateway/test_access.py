"""Callers by their tokens: what the Hub is asked, how long that holds, and who may use what."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from portal.gateway import access as module
from portal.gateway.access import SCOPE, Access, Caller, may_use
from portal.gateway.errors import Refused
from portal.gateway.routes import Model

ADA = {"kind": "user", "name": "ada", "groups": ["lab"], "scopes": [SCOPE]}


class Answer:
    """Answer of the Hub, as aiohttp's client gives it."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.content, self._body = status, self, body

    async def read(self, most: int) -> bytes:
        return self._body[:most]

    async def __aenter__(self) -> Answer:
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Hub:
    """Client whose answers are given."""

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self._answers, self.asked = list(answers), 0

    def get(self, url: str, **_: Any) -> Answer:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Answer(*answer)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def access(hub: Hub) -> Access:
    return Access("http://hub/api", hub, logging.getLogger("test"))  # type: ignore[arg-type]


GOOD = 200, b'{"kind": "user", "name": "ada", "groups": ["lab"], "scopes": ["x"]}'


async def test_the_hub_is_asked_once_for_many_and_again_after_ten_seconds(
    clock: list[float],
) -> None:
    hub = Hub(GOOD, (403, b""))
    callers = access(hub)
    found = await asyncio.gather(*(callers.caller("t") for _ in range(20)))
    assert {caller.name for caller in found} == {"ada"} and hub.asked == 1
    clock[0] += 4.9
    assert (await callers.caller("t")).name == "ada" and hub.asked == 1
    clock[0] += 5.2  # more than ten seconds in all
    with pytest.raises(Refused) as refused:
        await callers.caller("t")
    assert refused.value.status == 401 and hub.asked == 2
    with pytest.raises(Refused):
        await callers.caller("t")
    assert hub.asked == 2, "a flood of one bad token asks the Hub each time"


@pytest.mark.parametrize("away", [(503, b""), OSError("refused"), (200, b"<html>"), (200, b"[]")])
async def test_the_last_answer_holds_while_the_hub_is_away(clock: list[float], away: Any) -> None:
    hub = Hub(GOOD, away)
    callers = access(hub)
    await callers.caller("t")
    for _ in range(5):
        clock[0] += 60
        assert (await callers.caller("t")).name == "ada"
    assert hub.asked == 6
    await callers.caller("t")
    assert hub.asked == 6, "each request asks a Hub that is away"


async def test_a_service_is_no_caller() -> None:
    with pytest.raises(Refused):
        await access(Hub((200, b'{"kind": "service", "name": "s"}'))).caller("t")


async def test_no_token_is_kept() -> None:
    callers = access(Hub(GOOD))
    await callers.caller("very-secret")
    assert "very-secret" not in repr(vars(callers))


@pytest.mark.parametrize(
    ("scopes", "result"),
    [
        ({SCOPE}, True),
        ({f"{SCOPE}!service=echo"}, True),
        ({f"{SCOPE}!user=bob"}, True),
        ({"tokens!user=bob"}, True),
        ({f"{SCOPE}!service=other"}, None),
        ({f"{SCOPE}!user=ada"}, None),
        ({"tokens!user=ada"}, None),
        ({"read:users!user=bob", f"{SCOPE}x"}, None),
        (set(), None),
    ],
)
def test_scopes(scopes: set[str], result: bool | None) -> None:
    caller = Caller("bob", frozenset(), frozenset(scopes))
    model = Model(owner="ada", users=frozenset({"bob"}))
    if result is None:
        with pytest.raises(Refused) as refused:
            may_use(caller, "echo", model)
        assert refused.value.status == 403
    else:
        assert may_use(caller, "echo", model) is result
    assert not may_use(caller, "echo", Model(owner="ada")), "not listed"
