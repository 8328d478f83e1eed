"""A live page goes on while the machine's clock is set, ahead and back."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator

import pytest
from clusters import ADA, GRACE, STRANGER, job, node, pool, snapshot
from fake_watcher import ToldCluster, ToldTelemetry
from stepping_clock import SteppingClock

from portal.dashboard import Dashboard
from portal.dashboard.streams import EventStream
from portal.models.cluster.cluster import ClusterSnapshot

HOUR = 3600.0
STEPS = [(HOUR, -HOUR), (-HOUR, HOUR), (HOUR, HOUR), (-HOUR, -HOUR)]


def told(jobs: int) -> ClusterSnapshot:
    """What Slurm says, with so many jobs."""
    made = snapshot(
        node("gpu01", pool(8)), *(job(str(n), held={"gpu01": (n,)}) for n in range(jobs)),
        at=time.time(),
    )  # fmt: skip
    return made.model_copy(update={"asked_at": time.monotonic()})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppingClock:
    return SteppingClock(monkeypatch)


@pytest.fixture
async def dashboard() -> AsyncIterator[Dashboard]:
    made = Dashboard(cluster=ToldCluster(told(1)), telemetry=ToldTelemetry(), store=None)
    made.heartbeat = 60.0
    await made.refreshed()
    yield made
    await made._close()


async def numbers(stream: EventStream, least: int) -> list[int]:
    """The versions of the next events, at least so many."""
    found: list[int] = []
    while len(found) < least:
        frame = (await asyncio.wait_for(anext(stream), 20)).decode()
        found += [int(number) for number in re.findall(r"^id: [0-9a-f]+-(\d+)$", frame, re.M)]
    return found


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_a_stream_goes_on_and_its_ids_never_go_back(
    dashboard: Dashboard, clock: SteppingClock, steps: tuple[float, ...]
) -> None:
    cluster = dashboard.cluster
    assert isinstance(cluster, ToldCluster)
    streams = [dashboard.events(person, None) for person in (ADA, GRACE, STRANGER)]
    seen = [await numbers(stream, 1) for stream in streams]
    for count, step in enumerate(steps, start=2):
        clock.step(step)
        cluster.told, asked = told(count), cluster.asked
        await asyncio.wait_for(dashboard.refreshed(), 20)
        assert cluster.asked == asked + 1, "everybody who looks is shown what is so now"
        for stream, ids in zip(streams, seen, strict=True):
            ids += await numbers(stream, 1)
    for stream, ids in zip(streams, seen, strict=True):
        assert ids == sorted(ids) and ids[-1] == dashboard.view.version  # type: ignore[union-attr]
        assert not stream.closed
    assert dashboard.streams == 3
    for stream in streams:
        stream.close()


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_who_comes_back_goes_on_where_the_last_event_was(
    dashboard: Dashboard, clock: SteppingClock, steps: tuple[float, ...]
) -> None:
    cluster, view = dashboard.cluster, dashboard.view
    assert isinstance(cluster, ToldCluster) and view is not None
    last = view.id
    for count, step in enumerate(steps, start=2):
        clock.step(step)
        cluster.told = told(count)
        await dashboard.refreshed()
    stream = dashboard.events(GRACE, last)
    frame = (await anext(stream)) + (await anext(stream))
    assert b"event: reset" not in frame
    changes = [json.loads(text) for text in re.findall(r"^data: (.*)$", frame.decode(), re.M)]
    assert [sorted(one["jobs"]) for one in changes if "jobs" in one] == [["1"], ["2"]]
    stream.close()


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_the_loop_refreshes_at_its_pace(
    clock: SteppingClock, steps: tuple[float, ...]
) -> None:
    cluster = ToldCluster(told(1))
    dashboard = Dashboard(cluster=cluster, telemetry=ToldTelemetry(), store=None)
    dashboard.refresh_interval = 1.0
    running = asyncio.create_task(dashboard.run())
    try:
        for step in steps:
            asked = cluster.asked
            async with asyncio.timeout(20):
                while cluster.asked == asked:
                    await asyncio.sleep(0.02)
            clock.step(step)
            asked = cluster.asked
            async with asyncio.timeout(20):
                while cluster.asked == asked:
                    await asyncio.sleep(0.02)
            assert cluster.asked <= asked + 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_a_silent_stream_is_kept_alive(
    dashboard: Dashboard, clock: SteppingClock, steps: tuple[float, ...]
) -> None:
    dashboard.heartbeat = 0.1
    stream = dashboard.events(ADA, None)
    await numbers(stream, 1)
    for step in steps:
        clock.step(step)
        assert (await asyncio.wait_for(anext(stream), 20)).startswith(b":")
    stream.close()
