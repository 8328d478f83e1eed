"""Cost of the dashboard on a large cluster. Slurm (synthetic.py) and the Hub of the service
(synthetic_service.py) are synthetic, as stated in each row. All else is real."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from portal.dashboard import Dashboard
from portal.dashboard.pauses import Pauses
from portal.models.person import Person
from portal.slurm import Cluster, SlurmRunner
from portal.store import Store
from portal.telemetry import Telemetry

from .cluster import NotMeasured
from .report import Row
from .synthetic import Synthetic, synthetic
from .synthetic_service import ADMIN_TOKEN, Service, synthetic_service

SIZES = (10, 100, 300, 1000)  # nodes of 8 GPUs; ten jobs for each
_REFRESHES = 10
_STREAMS = 50
_INTERVAL = 5.0  # seconds between two refreshes of the service
_LOOKS = 5  # refreshes during which it is measured


def measure() -> list[Row]:
    """Return the rows; takes some minutes."""
    rows = asyncio.run(_inside(SIZES[-1]))
    rows += _large(SIZES[-1])
    return rows + [_size(nodes) for nodes in SIZES]


def _words(nodes: int) -> str:
    return f"{nodes} synthetic nodes, {8 * nodes} GPUs, {10 * nodes} jobs"


# -- in this process: CPU of a refresh, pauses of the event loop, questions ------------------


@asynccontextmanager
async def _dashboard(slurm: Synthetic) -> AsyncIterator[Dashboard]:
    runner = SlurmRunner(bin_dir=str(slurm.bin))
    with tempfile.TemporaryDirectory(prefix="scale-", dir="/var/tmp") as place:
        store = Store(url=f"sqlite:///{place}/portal.sqlite")
        await store.upgrade()
        cluster = Cluster(runner=runner, rpcs_per_second=100.0, burst=100)
        dashboard = Dashboard(cluster=cluster, telemetry=Telemetry(), store=store)
        try:
            yield dashboard
        finally:
            await store.close()
            cluster.close()


async def _inside(nodes: int) -> list[Row]:
    what = _words(nodes)
    with synthetic(nodes, 10 * nodes) as slurm:
        async with _dashboard(slurm) as dashboard:
            with Pauses().shortened():
                first = await _cpu(dashboard)
                later = await _later(dashboard, slurm)
        single, many = [await _questions(slurm, viewers) for viewers in (1, 200)]
        pause, idle = await _pause(slurm)
    return [
        Row(f"{what}: CPU of the first refresh", first, "s", goal="under 1", met=first < 1),
        Row(f"{what}: CPU of a refresh, 1 % churn", later, "s", goal="under 1", met=later < 1),
        Row(
            f"{what}: longest pause of the event loop during a refresh",
            1000 * pause,
            "ms",
            floor_value=1000 * idle,
            goal="under 100",
            met=pause < 0.1,
        ),
        Row(
            f"{what}: commands of Slurm in {_REFRESHES} refreshes, 200 viewers",
            many,
            "",
            "1 viewer",
            single,
            goal="the same",
            met=single == many,
        ),
    ]


async def _cpu(dashboard: Dashboard) -> float:
    """Return the CPU seconds of this process for a refresh, with history and accounting."""
    began = time.process_time()
    await dashboard.refreshed()
    took = time.process_time() - began
    if dashboard.view is None or dashboard.view.error:
        raise NotMeasured(f"no view of the synthetic cluster: {dashboard.error}")
    return took


async def _later(dashboard: Dashboard, slurm: Synthetic) -> float:
    times = []
    for _ in range(_REFRESHES):
        await asyncio.to_thread(slurm.step)
        times.append(await _cpu(dashboard))
    return statistics.median(times)


async def _questions(slurm: Synthetic, viewers: int) -> int:
    """Count the commands run during _REFRESHES refreshes with so many viewers and streams."""
    async with _dashboard(slurm) as dashboard:
        await dashboard.refreshed()
        before = sum(dashboard.cluster.runner.runs.values())
        people = [Person(name=f"user{number:03d}") for number in range(viewers)]
        streams = [dashboard.events(person, None) for person in people]
        for _ in range(_REFRESHES):
            await dashboard.refreshed()
            for person in people:
                dashboard.jobs_for(person)
                await dashboard.board(person)
        del streams
        return sum(dashboard.cluster.runner.runs.values()) - before


async def _pause(slurm: Synthetic) -> tuple[float, float]:
    """Return the longest pause of a task of the event loop while the dashboard runs, first refresh
    included, and the longest in the same time without it, in seconds."""
    seconds = 20.0
    idle = await _ticked(seconds)
    async with _dashboard(slurm) as dashboard:
        dashboard.refresh_interval = 2.0
        running = asyncio.create_task(dashboard.run())
        stepping = asyncio.create_task(_stepped(slurm, 2.0))
        await asyncio.sleep(0)  # let the tasks start: work before that is no refresh
        pause = await _ticked(seconds)
        for task in (running, stepping):
            task.cancel()
        await asyncio.gather(running, stepping, return_exceptions=True)
        if dashboard.view is None or dashboard.view.version < 3:
            raise NotMeasured("the dashboard made no refreshes")
    return pause, idle


async def _ticked(seconds: float) -> float:
    longest, last = 0.0, time.monotonic()
    end = last + seconds
    while last < end:
        await asyncio.sleep(0.001)
        now = time.monotonic()
        longest, last = max(longest, now - last - 0.001), now
    return longest


async def _stepped(slurm: Synthetic, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        await asyncio.to_thread(slurm.step)


# -- the service, from outside ----------------------------------------------------------------


@dataclass
class _Cost:
    """Cost of a service: CPU seconds a refresh, memory in MiB, bytes of each step's events."""

    cpu: float = 0.0
    memory: float = 0.0
    steps: list[int] = field(default_factory=list)


def _large(nodes: int) -> list[Row]:
    cost, what = _followed(nodes, _STREAMS), _words(nodes)
    most = max(cost.steps) / 1000
    return [
        Row(
            f"{what}: event stream per viewer and refresh, at most, 1 % churn",
            most,
            "kB",
            goal="under 50",
            met=most < 50,
        ),
        Row(
            f"{what}: memory of the service, {_STREAMS} event streams",
            cost.memory,
            "MiB",
            goal="under 400",
            met=cost.memory < 400,
        ),
    ]


def _size(nodes: int) -> Row:
    cost = _followed(nodes, 1)
    stream = statistics.median(cost.steps) / 1000
    words = f"CPU of the service a refresh (events {stream:.1f} kB, memory {cost.memory:.0f} MiB)"
    return Row(f"{_words(nodes)}: {words}", cost.cpu, "s")


def _followed(nodes: int, streams: int) -> _Cost:
    with synthetic_service(nodes, 10 * nodes, interval=_INTERVAL) as service:
        return asyncio.run(_watched(service, streams))


async def _watched(service: Service, streams: int) -> _Cost:
    """Measure the service while so many streams are open. A person may have eight streams."""
    cost = _Cost()
    named = min(8, streams)
    tokens = [ADMIN_TOKEN] * named
    tokens += [f"user{number:03d}-token" for number in range(streams - named)]
    viewers = [asyncio.create_task(_follow(service, token, cost.steps)) for token in tokens]
    await asyncio.sleep(2 * _INTERVAL)
    began = service.cpu_seconds()
    await asyncio.sleep(_LOOKS * _INTERVAL)
    cost.cpu = (service.cpu_seconds() - began) / _LOOKS
    cost.memory = service.memory_mib()
    for task in viewers:
        task.cancel()
    ends = await asyncio.gather(*viewers, return_exceptions=True)
    broken = [end for end in ends if isinstance(end, Exception)]
    if broken or not cost.steps:
        raise NotMeasured(f"the event streams broke: {broken[:3]}")
    return cost


async def _follow(service: Service, token: str, steps: list[int]) -> None:
    """Read a viewer's stream. A step is all events of a version: common ones and the viewer's."""
    parts = urlsplit(service.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(
        f"GET {parts.path}api/v1/events HTTP/1.0\r\nHost: {parts.netloc}\r\n"
        f"Authorization: token {token}\r\n\r\n".encode()
    )
    sizes: dict[bytes, int] = {}
    text = b""
    try:
        while chunk := await reader.read(1 << 16):
            *events, text = (text + chunk).split(b"\n\n")
            for event in events:
                kind, _, rest = event.partition(b"event: ")[2].partition(b"\n")
                if kind in (b"change", b"own"):
                    version = rest.partition(b"\n")[0]
                    sizes[version] = sizes.get(version, 0) + len(event) + 2
        raise OSError("a stream ended")
    finally:
        writer.close()
        # The first step has all of the viewer's own data, which is sent once.
        steps += list(sizes.values())[1:]
