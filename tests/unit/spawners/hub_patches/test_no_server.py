"""A session without a server is not waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.user import User

from spawners.hub_patches import no_server


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Spawners that JupyterHub itself has waited for."""
    spawners: list[Any] = []

    async def wait_up(self: User, spawner: Any) -> Any:
        spawners.append(spawner)
        return spawner

    monkeypatch.setattr(User, "_wait_up", wait_up)
    no_server.PATCH.apply()
    no_server.PATCH.apply()  # does nothing
    return spawners


async def test_without_a_server_it_is_ready_at_once(waited: list[Any]) -> None:
    spawner = SimpleNamespace(serves=False, _waiting_for_response=True, _start_pending=True)
    user: Any = object.__new__(User)
    assert await user._wait_up(spawner) is spawner
    assert waited == []
    assert not spawner._waiting_for_response and not spawner._start_pending


@pytest.mark.parametrize("about", [{"serves": True}, {}])
async def test_others_are_waited_for(waited: list[Any], about: dict[str, bool]) -> None:
    spawner = SimpleNamespace(_waiting_for_response=True, **about)
    user: Any = object.__new__(User)
    assert await user._wait_up(spawner) is spawner
    assert waited == [spawner] and spawner._waiting_for_response
