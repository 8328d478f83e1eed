"""Waiting times of viewers of a large cluster: for the first page, and for a change.

The service is real; Slurm and the Hub are synthetic (synthetic_service.py), as stated in each row.
A visit sends a browser's requests: the page, the board (compressed), then concurrently the first
jobs and the viewer's own data. A change is a job that the synthetic squeue did not have before; its
delay counts from the time at which squeue would have listed it.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from portal.slurm import parse

from .cluster import NotMeasured
from .report import Row
from .synthetic_service import ADMIN_TOKEN, Service, synthetic_service

NODES, JOBS = 1000, 10_000
STREAMS = 50
VISITS = 10.0  # a second
SECONDS = 60.0
INTERVAL = 5.0  # of the dashboard
_STEP = 3.7  # of the cluster: changes come at any time between two refreshes
WHAT = f"Viewers of {NODES} synthetic nodes, {STREAMS} streams, {VISITS:g} visits a second"

_PARTS = ("page", "board", "jobs", "own")


@dataclass
class Seen:
    """Measurements. Times are Unix seconds, durations seconds."""

    visits: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _PARTS})
    arrivals: dict[int, list[float]] = field(default_factory=dict)  # of each version
    jobs: dict[int, set[str]] = field(default_factory=dict)  # new in each version
    steps: list[tuple[float, str]] = field(default_factory=list)  # time and output of squeue
    failures: list[str] = field(default_factory=list)

    def delays(self) -> Iterator[float]:
        """Yield the delay of each change for each viewer, in seconds."""
        before: set[str] | None = None
        for at, text in self.steps:
            now = set(parse.jobs(text, "\x1fSEPARATOR"))
            for id_ in now - before if before is not None else ():
                versions = [version for version, jobs in self.jobs.items() if id_ in jobs]
                if versions:
                    yield from (arrival - at for arrival in self.arrivals[min(versions)])
            before = now


def measure() -> list[Row]:
    """Return the rows; takes a minute and a half."""
    with synthetic_service(NODES, JOBS, interval=INTERVAL, step=_STEP) as service:
        began, cpu = time.monotonic(), service.cpu_seconds()
        seen = asyncio.run(_load(service))
        cpu = (service.cpu_seconds() - cpu) / (time.monotonic() - began)
    if seen.failures or len(seen.visits) < VISITS * SECONDS / 2:
        raise NotMeasured(f"{len(seen.visits)} visits, {seen.failures[:3]}")
    delays = list(seen.delays())
    if not delays:
        raise NotMeasured("no change came")
    p95 = statistics.quantiles(seen.visits, n=20)[-1]
    parts = ", ".join(
        f"{name} {1000 * statistics.quantiles(times, n=20)[-1]:.0f}"
        for name, times in seen.parts.items()
    )
    most = INTERVAL + 0.5
    return [
        Row(
            f"{WHAT}: first page, p95 (p95 of its requests: {parts} ms)",
            1000 * p95,
            "ms",
            goal="under 200",
            met=p95 < 0.2,
        ),
        Row(
            f"{WHAT}: a change reaches every viewer, at most "
            f"(median {statistics.median(delays):.1f})",
            max(delays),
            "s",
            goal=f"under {most:g}: one interval of {INTERVAL:g} s + 0.5 s",
            met=max(delays) < most,
        ),
        Row(f"{WHAT}: the service's share of a core", 100 * cpu, "%"),
    ]


async def _load(service: Service) -> Seen:
    seen = Seen()
    tasks = [
        asyncio.create_task(_follow(service, _token(number), seen)) for number in range(STREAMS)
    ]
    tasks.append(asyncio.create_task(_watch(service, seen)))
    await asyncio.sleep(2 * INTERVAL)
    visits: set[asyncio.Task[None]] = set()
    end = time.monotonic() + SECONDS
    number, due = 0, time.monotonic()
    while time.monotonic() < end:  # whether the last visit is over or not
        number, due = number + 1, due + 1 / VISITS
        visits.add(asyncio.create_task(_visit(service, _token(number), seen)))
        await asyncio.sleep(max(0, due - time.monotonic()))
    await asyncio.wait(visits, timeout=20)
    for task in tasks:
        task.cancel()
    for failure in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(failure, Exception):
            seen.failures.append(repr(failure))
    return seen


def _token(number: int) -> str:
    """Return a viewer's token: every eighth sees all names, as a person may have eight streams."""
    return f"user{number % STREAMS:03d}-token" if number % 8 else ADMIN_TOKEN


async def _visit(service: Service, token: str, seen: Seen) -> None:
    async def part(name: str, path: str) -> bytes:
        began = time.monotonic()
        body = await get(service, path, token)
        seen.parts[name].append(time.monotonic() - began)
        return body

    began = time.monotonic()
    try:
        await part("page", "")
        await part("board", "api/v1/board")
        await asyncio.gather(
            part("jobs", "api/v1/jobs?limit=50&sort=-submit_time"),
            part("own", "api/v1/changes?stream=0&version=0"),
        )
    except (OSError, ValueError) as error:
        seen.failures.append(repr(error))
        return
    seen.visits.append(time.monotonic() - began)


async def _follow(service: Service, token: str, seen: Seen) -> None:
    reader, writer, _ = await _asked(service, "api/v1/events", token)
    text = b""
    try:
        while chunk := await reader.read(1 << 16):
            at = time.time()
            text += chunk
            *events, text = text.split(b"\n\n")
            for event in events:
                kind, _, data = event.partition(b"event: ")[2].partition(b"\n")
                if kind != b"change":
                    continue
                version = int(data.partition(b"-")[2].partition(b"\n")[0])
                seen.arrivals.setdefault(version, []).append(at)
                if version not in seen.jobs:
                    changes = json.loads(data.partition(b"data: ")[2])
                    seen.jobs[version] = set(changes.get("jobs", ()))
        raise OSError("a stream ended")
    finally:
        writer.close()


async def _watch(service: Service, seen: Seen) -> None:
    """Record the changes of squeue's output, with their times."""
    path = service.squeue
    last = 0.0
    while True:
        with suppress(OSError):
            now = path.stat().st_mtime
            if now != last:
                last = now
                seen.steps.append((now, await asyncio.to_thread(path.read_text)))
        await asyncio.sleep(0.05)


async def get(service: Service, path: str, token: str) -> bytes:
    """Return the body of a response. Raises OSError unless it is a success."""
    reader, writer, length = await _asked(service, path, token)
    try:
        return await (reader.readexactly(length) if length is not None else reader.read())
    finally:
        writer.close()


async def _asked(
    service: Service, path: str, token: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int | None]:
    """Send a GET and read the head: a client library would cost more than the service."""
    parts = urlsplit(service.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 22)
    writer.write(
        f"GET {parts.path}{path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept-Encoding: gzip\r\n"
        f"Authorization: token {token}\r\n\r\n".encode()
    )
    status = await reader.readline()
    length = None
    while line := (await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        if name.lower() == "content-length":
            length = int(value)
    if b" 200 " not in status:
        writer.close()
        raise OSError(f"{path}: {status.decode(errors='replace').strip()}")
    return reader, writer, length
