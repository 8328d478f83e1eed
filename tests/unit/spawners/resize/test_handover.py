"""What the Hub asks servers of users, who may answer with anything: nothing of it harms the Hub."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm, roles
from stepping_clock import SteppingClock

from spawners import session_server
from spawners.resize import handover
from spawners.resize.handover import busy_kernels

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def spawner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whose tokens are none."""
    monkeypatch.setattr(session_server, "_token", lambda *_: contextlib.nullcontext("secret"))
    monkeypatch.setattr(session_server, "client_tls", lambda spawner: None)
    return SimpleNamespace(log=logging.getLogger("test"), _log_name="ada", server=None)


@contextlib.asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[str]:
    """The address of a server that answers so, or with silence (b"")."""
    hold = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(OSError):
            writer.write(answer)
            await writer.drain()
        if not answer:
            await hold.wait()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/user/ada/"
    finally:
        hold.set()
        listening.close()


def with_length(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def test_the_kernels_that_compute(spawner: Any) -> None:
    async with server(with_length(b'{"busy": ["a.ipynb", 7, "a\\nb"]}')) as url:
        spawner.server = SimpleNamespace(url=url)
        assert await busy_kernels(spawner) == ["a.ipynb"]


@pytest.mark.parametrize(
    "answer",
    [
        with_length(b"[" * 100_000),
        with_length(b" " * 300_000 + b'{"busy": []}'),
        HEAD + b"\r\n" + b" " * 300_000 + b'{"busy": []}',  # until it closes
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b" " * 65536 + b"\r\n",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        with_length(b"[]"),
        with_length(b"\xff"),
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
    ],
    ids=[
        "deep", "long", "long without a length", "cut off", "no gzip", "a list", "no text",
        "elsewhere", "another protocol",
    ],
)  # fmt: skip
async def test_an_answer_that_is_none(spawner: Any, answer: bytes) -> None:
    async with server(answer) as url:
        spawner.server = SimpleNamespace(url=url)
        assert await asyncio.wait_for(busy_kernels(spawner), 5) is None


async def test_silent_servers_keep_no_other_waiting(
    spawner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_ANSWER", 2.0)
    good = with_length(b'{"busy": []}')
    async with server(b"") as silent, server(good) as url:
        slow = SimpleNamespace(**{**vars(spawner), "server": SimpleNamespace(url=silent)})
        waiting = [asyncio.ensure_future(busy_kernels(slow)) for _ in range(12)]
        await asyncio.sleep(0)
        spawner.server = SimpleNamespace(url=url)
        assert await busy_kernels(spawner) == []
        assert not any(one.done() for one in waiting)
        assert await asyncio.gather(*waiting) == [None] * 12


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The Hub's own database, in memory, with one user in it."""
    db = orm.new_session_factory("sqlite:///:memory:")()
    for role in roles.get_default_roles():
        roles.create_role(db, role)
    user = orm.User(name="ada")
    db.add_all([user, orm.OAuthClient(identifier="jupyterhub")])
    roles.assign_default_roles(db, user)
    db.commit()

    def now() -> datetime:
        return datetime.fromtimestamp(time.time(), UTC).replace(tzinfo=None)

    monkeypatch.setattr(orm.APIToken, "now", staticmethod(now))
    yield SimpleNamespace(
        name="",
        user=SimpleNamespace(name="ada", db=db, new_api_token=user.new_api_token),
    )
    db.close()


@pytest.mark.parametrize("steps", [(), (3600.0,), (-3600.0,), (3600.0, -3600.0)], ids=str)
def test_the_token_of_a_hand_over_is_gone_when_that_is_over(
    hub: Any, steps: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, db = SteppingClock(monkeypatch), hub.user.db
    others = db.query(orm.APIToken).count()
    with session_server._token(hub, "test") as token:
        assert orm.APIToken.find(db, token) is not None
        for step in steps:
            clock.step(step)
    assert db.query(orm.APIToken).count() == others
    clock.step(-sum(steps))  # where it was, and it would be good again
    assert orm.APIToken.find(db, token) is None


def test_a_token_that_the_hub_has_put_away_takes_no_other_with_it(
    hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of rows are given out anew by SQLite."""
    clock, db = SteppingClock(monkeypatch), hub.user.db
    with session_server._token(hub, "test") as token:
        number = orm.APIToken.find(db, token).id
        clock.step(3600)
        orm.APIToken.purge_expired(db)
        other = hub.user.new_api_token(note="another")
        assert orm.APIToken.find(db, other).id == number
    assert orm.APIToken.find(db, other) is not None


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_token_of_two_minutes_is_good_for_no_more(
    hub: Any, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, db = SteppingClock(monkeypatch), hub.user.db
    with session_server._token(hub, "test") as token:
        row = orm.APIToken.find(db, token)
        assert row.scopes == ["access:servers!server=ada/"]
        assert 115 < row.expires_in <= 120
        clock.step(step)
        assert (orm.APIToken.find(db, token) is None) is (step > 0)
