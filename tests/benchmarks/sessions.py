"""Cost of a thousand sessions that ask about themselves every ten seconds, as JupyterLab's status
bar does, each with its own token. The service is real; Slurm and the Hub are synthetic."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable

from .cluster import NotMeasured
from .report import Row
from .service import get
from .synthetic_service import Service, session_tokens, synthetic_service

NODES, JOBS = 1000, 10_000
SESSIONS = 1000
EVERY = 10.0  # seconds between two requests of a session
SECONDS = 30.0
AT_ONCE = 4000  # requests without a pause, for the CPU of each
INTERVAL = 20.0  # of the dashboard, whose own CPU time is subtracted
WHAT = f"{SESSIONS} synthetic sessions that each ask about themselves every {EVERY:g} s"


def measure() -> list[Row]:
    """Return the rows; takes two minutes."""
    with synthetic_service(NODES, JOBS, churn=0, interval=INTERVAL) as service:
        tokens = session_tokens(service, SESSIONS)
        asyncio.run(_all(service, tokens))  # makes the service ask the Hub for their users
        cpu = service.cpu_seconds()
        time.sleep(2 * INTERVAL)
        alone = (service.cpu_seconds() - cpu) / (2 * INTERVAL)
        began, cpu = time.monotonic(), service.cpu_seconds()
        asyncio.run(_all(service, [tokens[n % len(tokens)] for n in range(AT_ONCE)]))
        took = time.monotonic() - began
        each = (service.cpu_seconds() - cpu - alone * took) / AT_ONCE
        times = asyncio.run(_paced(service, tokens))
    p95 = statistics.quantiles(times, n=20)[-1]
    return [
        Row(
            f"{WHAT}: an answer, p95 (median {1000 * statistics.median(times):.1f})",
            1000 * p95,
            "ms",
            goal="under 100",
            met=p95 < 0.1,
        ),
        Row(f"{WHAT}: CPU of the service for one answer", 1000 * each, "ms"),
        Row(f"{WHAT}: their share of a core", 100 * each * SESSIONS / EVERY, "%"),
    ]


async def _all(service: Service, tokens: Iterable[str]) -> None:
    """Send a request with each token, eight at a time. Raises NotMeasured on failures over 1 %."""
    left = iter(tokens)
    failures: list[str] = []
    asked = 0

    async def some() -> None:
        nonlocal asked
        for token in left:
            asked += 1
            try:
                await get(service, "api/v1/session", token)
            except (OSError, ValueError) as error:
                failures.append(repr(error))

    await asyncio.gather(*(some() for _ in range(8)))
    if len(failures) > asked / 100:  # a synthetic job may have ended
        raise NotMeasured(f"{len(failures)} of {asked} answers: {failures[:3]}")


async def _paced(service: Service, tokens: list[str]) -> list[float]:
    """Send each token's requests every EVERY seconds, spread evenly; return the seconds of each."""
    took: list[float] = []

    async def timed(token: str) -> None:
        began = time.monotonic()
        await _all(service, [token])
        took.append(time.monotonic() - began)

    tasks: list[asyncio.Task[None]] = []
    due = time.monotonic()
    for number in range(int(len(tokens) * SECONDS / EVERY)):
        tasks.append(asyncio.create_task(timed(tokens[number % len(tokens)])))
        due += EVERY / len(tokens)
        await asyncio.sleep(max(0, due - time.monotonic()))
    await asyncio.wait(tasks, timeout=20)
    failed = sum(not task.done() or task.exception() is not None for task in tasks)
    if failed > len(tasks) / 100:
        raise NotMeasured(f"{failed} of {len(tasks)} were not answered")
    return took
