"""Launches wait for their turn before JupyterHub's own work for them, and never in its middle."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.user import User

from spawners import spawner as slurm
from spawners.hub_patches import spawn_queue
from spawners.hub_patches.spawn_queue import CallerQueue, _in_turn
from spawners.lifecycle.reports import token_scopes


async def test_a_launch_begins_in_its_turn_and_gets_what_it_was_given() -> None:
    order: list[str] = []

    async def spawn(user: Any, server: str, options: Any = None, handler: Any = None) -> str:
        order.append(server)
        return f"{server} {options} {handler}"

    turned, user = _in_turn(spawn), SimpleNamespace()
    launches = [asyncio.ensure_future(turned(user, one, {}, handler="h")) for one in "abc"]
    await asyncio.sleep(0)
    assert order == []
    for _ in range(30):
        before = len(order)
        await asyncio.sleep(0)
        assert len(order) <= before + 1, "one in each turn of the loop"
    assert await asyncio.gather(*launches) == ["a {} h", "b {} h", "c {} h"]


def test_the_hub_s_launches_have_turns_and_stop_nowhere_before_their_first_commit() -> None:
    """What is in the session of the database and not committed goes away with whatever request
    ends meanwhile. JupyterHub asks for the token's scopes there, and awaits an awaitable."""
    spawn_queue.PATCH.apply()
    assert hasattr(User.spawn, "in_turn")
    spawner: Any = SimpleNamespace(**{"_trait_values": {}})
    scopes = slurm.PortalSpawner._server_token_scopes_default(spawner)
    assert scopes is token_scopes and not inspect.iscoroutinefunction(scopes)


async def test_the_loop_runs_between_two_turns() -> None:
    turns, order = CallerQueue(), []

    async def launch(number: int) -> None:
        await turns.take()
        order.append(number)
        asyncio.get_running_loop().call_soon(order.append, "other")

    await asyncio.gather(*(launch(number) for number in range(3)))
    await asyncio.sleep(0)
    assert order == [0, "other", 1, "other", 2, "other"]


async def test_a_turn_is_not_lost_with_who_waits_for_it() -> None:
    turns = CallerQueue()
    first = asyncio.ensure_future(turns.take())
    second = asyncio.ensure_future(turns.take())
    third = asyncio.ensure_future(turns.take())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait_for(asyncio.gather(first, third), 5)
    with pytest.raises(asyncio.CancelledError):
        await second
