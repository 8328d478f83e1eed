"""Stop of a session from its own JupyterLab: only that session stops itself, for its owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from session_endpoints import catalog_of, parts_on, served
from test_extend import TOKENS, TORCH, Slurm

from portal.handlers.sessions import actions
from portal.store import Store


class Hub:
    """Hub that stops what it is asked to; ``stopped``: whose, which, for whom, and why."""

    def __init__(self) -> None:
        self.stopped: list[tuple[Any, ...]] = []

    async def stop_server(self, user: str, server: str, *, on_behalf_of: str, reason: Any) -> None:
        self.stopped.append((user, server, on_behalf_of, reason))


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def client(store: Store, hub: Hub) -> AsyncIterator[httpx.AsyncClient]:
    slurm = Slurm()
    await store.sessions.save(slurm.record)
    parts = parts_on(
        store,
        **dict.fromkeys(("cluster", "control", "dashboard"), slurm),
        catalog=catalog_of(TORCH),
        hub=hub,
    )
    async with served(actions.ENDPOINTS, parts, TOKENS.get) as client:
        yield client


async def _stop(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("session/stop", headers={"Authorization": f"token {token}"})


async def test_a_session_stops_itself_for_its_owner(
    client: httpx.AsyncClient, hub: Hub, store: Store
) -> None:
    answer = await _stop(client, "session")
    assert answer.status_code == 200, answer.text
    assert hub.stopped == [("ada", "", "ada", None)]
    ((entry, *more), _) = await store.audit.find()
    assert (entry.actor, entry.action, entry.target) == ("ada", "stop-session", "session S10")
    assert not more


@pytest.mark.parametrize(
    ("token", "status"),
    [("ada", 403), ("grace", 403), ("barbaras-session", 503), ("unknown", 403)],
)
async def test_no_other_token_stops_it(
    client: httpx.AsyncClient, hub: Hub, token: str, status: int
) -> None:
    assert (await _stop(client, token)).status_code == status
    assert hub.stopped == []
