"""Attempts to fill the Hub with progress streams: opened by the hundred, left, never read.

The Hub's API with JupyterHub's own handlers and ours, over real connections; the start that is
followed lasts for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import apihandlers
from jupyterhub.apihandlers.users import SpawnProgressAPIHandler
from jupyterhub.scopes import Scope
from tornado import netutil
from tornado.httpserver import HTTPServer
from tornado.web import Application

from spawners.hub_patches import progress_stream
from spawners.hub_patches.progress_stream import AT_MOST, ProgressStream
from spawners.lifecycle.progress import Progress


class Starting:
    """A spawner whose job waits in the queue."""

    ready, _spawn_pending, progress_ready_hook, _log_name = False, True, None, "ada"

    def __init__(self) -> None:
        self._spawn_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.progress_state = Progress()
        self.followed = 0

    async def _generate_progress(self) -> AsyncIterator[dict[str, Any]]:
        self.followed += 1
        try:
            async for event in self.progress_state.events():
                yield event
        finally:
            self.followed -= 1


class Stream(ProgressStream):
    """Without the Hub's database: who asks stands in a header, and may read what is asked for."""

    def prepare(self) -> None:
        self.expanded_scopes = {"read:servers"}
        self.parsed_scopes = {"read:servers": Scope.ALL}
        kind, _, name = self.request.headers["Who"].partition(":")
        self._jupyterhub_user = SimpleNamespace(kind=kind, name=name)

    def find_user(self, _name: str) -> Any:
        return SimpleNamespace(
            name="ada", spawners={"": self.settings["starting"]}, url="/user/ada/"
        )


class Attacker:
    """Opens streams as somebody; each is (status, reader, writer)."""

    def __init__(self, port: int, spawner: Starting) -> None:
        self.port, self.spawner = port, spawner

    async def open(self, who: str = "user:ada", server: str = "server") -> tuple[str, Any, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        path = f"/api/users/ada/{server}/progress"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nWho: {who}\r\n\r\n".encode())
        status = (await reader.readline()).split()[1].decode()
        return status, reader, writer

    async def open_many(self, number: int, who: str = "user:ada") -> list[tuple[str, Any, Any]]:
        return [await self.open(who) for _ in range(number)]


@pytest.fixture
async def attacker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Attacker]:
    monkeypatch.setattr(progress_stream, "_MOMENT", 0.6)
    spawner = Starting()
    routes = [(r"/api/users/([^/]+)/server/progress", Stream)]
    log = SimpleNamespace(**dict.fromkeys(("info", "warning", "error", "debug"), lambda *_: None))
    web = Application(
        routes,
        starting=spawner,
        log=log,
        log_function=lambda _: None,
        base_url="/",
        hub=SimpleNamespace(base_url="/hub/"),
        db=SimpleNamespace(dirty=()),
    )
    server = HTTPServer(web)
    [listening] = netutil.bind_sockets(0, "127.0.0.1")
    server.add_socket(listening)
    yield Attacker(listening.getsockname()[1], spawner)
    server.stop()
    await server.close_all_connections()
    for _ in range(100):
        if not progress_stream._open:
            break
        await asyncio.sleep(0.05)
    assert not progress_stream._open
    await asyncio.sleep(0)


async def test_hundreds_of_streams_of_one_person(attacker: Attacker) -> None:
    opened = await attacker.open_many(200)
    assert [status for status, *_ in opened].count("200") == AT_MOST
    assert {status for status, *_ in opened[AT_MOST:]} == {"429"}
    text = (await opened[-1][1].read(2000)).decode()
    assert "Retry-After: 30" in text and "You already have the maximum" in text
    assert attacker.spawner.followed <= AT_MOST


async def test_others_are_not_concerned(attacker: Attacker) -> None:
    await attacker.open_many(AT_MOST)
    for who in ("user:grace", "service:ada"):
        assert (await attacker.open(who))[0] == "200"
    assert (await attacker.open())[0] == "429"


async def test_streams_that_are_left_are_gone(attacker: Attacker) -> None:
    """Opened and left by the hundred while the job waits: nothing of them stays."""
    before = asyncio.all_tasks()
    for _ in range(3):
        opened = await attacker.open_many(AT_MOST)
        assert {status for status, *_ in opened} == {"200"}
        for _, _, writer in opened:
            writer.transport.abort()
        for _ in range(100):
            if not progress_stream._open and not attacker.spawner.followed:
                break
            await asyncio.sleep(0.05)
        assert not progress_stream._open and attacker.spawner.followed == 0
    for _ in range(100):  # connections' own tasks end a moment later
        if len(asyncio.all_tasks() - before) <= 1:
            break
        await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks() - before) <= 1
    assert not attacker.spawner._spawn_future.cancelled()  # the start goes on


async def test_a_stream_still_tells_how_it_ended(attacker: Attacker) -> None:
    _, reader, _ = await attacker.open()
    attacker.spawner._spawn_future.set_exception(RuntimeError("no node"))
    text = b""
    while b"failed" not in text:
        text += await asyncio.wait_for(reader.read(1000), 10)
    assert b"Checking the request" in text and b"no node" in text


def test_the_hub_has_no_other_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apihandlers, "default_handlers", [*apihandlers.default_handlers])
    progress_stream.apply()
    kinds = [row[1] for row in apihandlers.default_handlers]
    assert SpawnProgressAPIHandler not in kinds and kinds.count(ProgressStream) == 2
