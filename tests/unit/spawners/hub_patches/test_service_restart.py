"""The web service is looked at each second, unless it ends again and again; the Hub outlives it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from spawners.hub_patches import service_restart


def test_a_service_is_looked_at_soon_and_later_if_it_keeps_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(service_restart.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(service_restart, "_starts", {})
    started: list[int] = []
    start = service_restart._looked_at_soon(lambda spawner: started.append(spawner.poll_interval))

    def starts(name: str, after: float) -> None:
        clock[0] += after
        service: Any = SimpleNamespace(_service_name=name, poll_interval=30)
        start(service)

    for _ in range(7):
        starts("portal", 5)
    starts("portal", 61)
    starts("another", 1)
    assert started == [1, 2, 4, 8, 16, 30, 30, 1, 1]


@pytest.mark.parametrize(
    ("ready", "status", "goes_on"),
    [(True, None, True), (False, -9, True), (False, 1, False), (False, None, True)],
    ids=["answers", "killed", "refuses to start", "slow"],
)
def test_a_hub_that_starts_outlives_its_killed_service(
    ready: bool, status: int | None, goes_on: bool
) -> None:
    async def start_service(*asked: Any) -> bool:
        return ready

    process = SimpleNamespace(poll=lambda: status)
    service: Any = SimpleNamespace(managed=True, proc=process)
    hub: Any = SimpleNamespace(log=SimpleNamespace(warning=lambda *words: None))
    survived = service_restart._survived(start_service)
    assert asyncio.run(survived(hub, "portal", service)) is goes_on
