"""Launches wait for their turn before JupyterHub's own work for them, and never in its middle."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

from jupyterhub.user import User

from spawners import slurm
from spawners.reports import token_scopes
from spawners.turns import _in_turn


async def test_a_launch_begins_in_its_turn_and_gets_what_it_was_given() -> None:
    order: list[str] = []

    async def spawn(user: Any, server: str, options: Any = None, handler: Any = None) -> str:
        order.append(server)
        return f"{server} {options} {handler}"

    turned = _in_turn(spawn)
    launches = [asyncio.ensure_future(turned(None, one, {}, handler="h")) for one in "abc"]
    await asyncio.sleep(0)
    assert order == []
    while len(order) < 3:
        before = len(order)
        await asyncio.sleep(0)
        assert len(order) <= before + 1, "one in each turn of the loop"
    assert await asyncio.gather(*launches) == ["a {} h", "b {} h", "c {} h"]


def test_the_hub_s_launches_have_turns_and_stop_nowhere_before_their_first_commit() -> None:
    """What is in the session of the database and not committed goes away with whatever request
    ends meanwhile. JupyterHub asks for the token's scopes there, and awaits an awaitable."""
    assert hasattr(User.spawn, "in_turn")
    spawner: Any = SimpleNamespace(**{"_trait_values": {}})
    scopes = slurm.PortalSpawner._server_token_scopes_default(spawner)
    assert scopes is token_scopes and not inspect.iscoroutinefunction(scopes)
