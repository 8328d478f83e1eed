"""The web service is looked at each second, unless it ends again and again."""

from __future__ import annotations

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
