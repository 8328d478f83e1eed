"""Stop of a session from its own JupyterLab: only that session stops itself, for its owner."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fake_hub import FakeHub
from session_endpoints import catalog_of, parts_on, served
from test_extend import TOKENS, TORCH, Slurm

from portal.handlers.sessions import actions
from portal.store import Store


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
async def client(store: Store, hub: FakeHub) -> AsyncIterator[httpx.AsyncClient]:
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
    client: httpx.AsyncClient, hub: FakeHub, store: Store
) -> None:
    answer = await _stop(client, "session")
    assert answer.status_code == 200, answer.text
    assert hub.stopped == [("ada", "", "ada")]
    ((entry, *more), _) = await store.audit.find()
    assert (entry.actor, entry.action, entry.target) == ("ada", "stop-session", "session S10")
    assert not more


@pytest.mark.parametrize(
    ("token", "status"),
    [("ada", 403), ("grace", 403), ("barbaras-session", 503), ("unknown", 403)],
)
async def test_no_other_token_stops_it(
    client: httpx.AsyncClient, hub: FakeHub, token: str, status: int
) -> None:
    assert (await _stop(client, token)).status_code == status
    assert hub.stopped == []
