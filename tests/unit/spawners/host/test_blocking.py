"""What hangs on the Hub's machine does not stop the Hub."""

from __future__ import annotations

import asyncio
import pwd
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import NotAllowed, Unavailable
from spawners.host.accounts import home_of
from spawners.host.blocking import Blocking
from spawners.spawner import PortalSpawner


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """getpwnam hangs, as with an sssd that does not answer, until this event is set."""
    event = threading.Event()

    def hang(name: str) -> Any:
        assert event.wait(60), "nobody let it go"
        return SimpleNamespace(pw_name=name, pw_dir=f"/home/{name}", pw_uid=6101)

    monkeypatch.setattr(pwd, "getpwnam", hang)
    yield event
    event.set()


async def test_a_hanging_account_lookup_leaves_the_loop_free(answers: threading.Event) -> None:
    blocking = Blocking()
    asked = asyncio.ensure_future(home_of("ada", blocking, 60))
    for _ in range(20):  # the loop turns, although the lookup hangs
        await asyncio.sleep(0)
    assert not asked.done()
    with pytest.raises(Unavailable, match=r"'ada' could not be looked up.*Try again") as caught:
        await home_of("ada", blocking, 0.05)
    assert caught.value.status == 503
    # Both wait for one thread.
    assert sum(t.name == "portal-account-ada" for t in threading.enumerate()) == 1
    answers.set()
    assert await asked == "/home/ada"
    # The next question is a new one.
    assert await home_of("ada", blocking, 60) == "/home/ada"


async def test_an_unknown_account_is_told_apart() -> None:
    with pytest.raises(NotAllowed, match="no account on this cluster"):
        await home_of("no-such-person", Blocking(), 60)


def test_the_sessions_environment_needs_no_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pytest.fail("looked up"))
    assert PortalSpawner.user_env(SimpleNamespace(), {"A": "b"}) == {"A": "b"}  # type: ignore[arg-type]


async def test_what_a_call_raises_reaches_everyone_who_waits() -> None:
    blocking, go = Blocking(), threading.Event()

    def fail() -> None:
        go.wait(60)
        raise OSError("gone")

    both = [asyncio.ensure_future(blocking.call("x", fail, 60)) for _ in range(2)]
    await asyncio.sleep(0)
    go.set()
    for one in both:
        with pytest.raises(OSError, match="gone"):
            await one
    assert await blocking.call("x", lambda: None, 60) is None


async def test_accounts_that_cannot_be_read_are_not_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(_: object) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwnam", nobody)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(Unavailable, match="could not be looked up"):
        await home_of("ada", Blocking(), 60)
