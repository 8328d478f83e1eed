"""List of sessions: those with a page apart from kernels and runs, which have none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fake_hub import FakeHub
from session_endpoints import catalog_of, parts_on, person, served
from session_records import recorded

from portal.errors import NotFound
from portal.handlers.sessions import sessions
from portal.models.session.session import SessionState
from portal.store import Store

RECORDS = {
    "lab": "",
    "board": "tensorboard",
    "kernel": "kernel-5e2f3c1a",
    "run": "run-5e2f3c1a0b7d4c8e9a6f",
}


def _no_environment(name: str, owner: Any) -> Any:
    raise NotFound(f"There is no environment '{name}'.")


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", {"lab", "board", "kernel", "run"}),
        ("?has_page=true", {"lab", "board"}),
        ("?has_page=false", {"kernel", "run"}),
        ("?has_page=true&ended=false", set()),
    ],
)
async def test_kernels_and_runs_do_not_bury_sessions(
    store: Store, query: str, ids: set[str]
) -> None:
    for id_, server in RECORDS.items():
        await store.sessions.save(
            recorded(id=id_, user="ada", server=server, submitted_at=1.0, state=SessionState.ENDED)
        )
    catalog = catalog_of()
    catalog.get = _no_environment
    telemetry = SimpleNamespace(simulated=False)
    played = {"catalog": catalog, "telemetry": telemetry, "hub": FakeHub(running={})}
    parts: Any = parts_on(store, dashboard=None, **played)
    tokens = {"ada": person("ada")}
    async with served(sessions.ENDPOINTS, parts, tokens.get, logins=True) as client:
        answer = await client.get(f"sessions{query}", headers={"Authorization": "token ada"})
    assert answer.status_code == 200, answer.text
    assert {item["id"] for item in answer.json()["items"]} == ids
    assert answer.json()["total"] == len(ids)
