"""Served models: a request through the gateway beside the same program asked on its own socket."""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from gateway_site import NAME, GatewaySite

from .cluster import NotMeasured
from .report import Row

WHAT = "A served model"
RATE = 200  # requests a second
ROUNDS, SECONDS = 5, 3.0  # socket and gateway take turns
STREAMS = 2_000
_USERS = 20  # since each has 200 requests at once at most
_FILES = 8_000  # of this process, for the streams
_Times = list[float]


def measure() -> list[Row]:
    """Return the rows; takes a minute and a half. Raises NotMeasured without enough files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < _FILES:
        raise NotMeasured(f"a process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return asyncio.run(_measured())


async def _measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        site = GatewaySite(Path(folder))
        await site.start()
        try:
            await site.add_replica("a")
            limits = {"in_flight": 2 * STREAMS, "seconds": 3600}
            await site.serve("a", limits=limits, everyone=True)
            tokens = [site.add_user(f"user{number}") for number in range(_USERS)]
            rows = await _requests(site, tokens)
            return [*rows, await _streams(site, tokens)]
        finally:
            await site.stop()


async def _requests(site: GatewaySite, tokens: list[str]) -> list[Row]:
    (path,) = site.folder.glob("portal-ep-*/socket")
    by_socket = aiohttp.UnixConnector(path=str(path), limit=0)
    figures: dict[str, list[tuple[float, float]]] = {"socket": [], "gateway": []}
    async with (
        aiohttp.ClientSession(connector=by_socket) as socket,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as gateway,
    ):
        for _ in range(ROUNDS):
            times = await _asked(socket, "http://program/v1/x", [""])
            figures["socket"].append(_of(times))
            times = await _asked(gateway, site.url("/v1/x"), tokens)
            figures["gateway"].append(_of(times))
    rows = []
    for index, words, most in ((0, "p50", 3.0), (1, "p95", 10.0)):
        peer, value = (
            statistics.median(pair[index] for pair in figures[name])
            for name in ("socket", "gateway")
        )
        rows.append(
            Row(
                f"{WHAT}, {RATE} requests/s, {words}",
                value,
                "ms",
                "its socket",
                peer,
                goal=f"at most peer + {most:g} ms",
                met=value <= peer + most,
            )
        )
    return rows


async def _streams(site: GatewaySite, tokens: list[str]) -> Row:
    process = psutil.Process(site.gateways[0].pid)
    before = process.memory_full_info().uss
    opened: list[aiohttp.ClientResponse] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def begin(number: int) -> None:
            url = site.url("/v1/stream?n=1000&pause=30")
            response = await session.get(url, headers=site.headers(tokens[number % _USERS]))
            assert response.status == 200, await response.text()
            await response.content.readany()
            opened.append(response)

        for first in range(0, STREAMS, 50):
            await asyncio.gather(*(begin(number) for number in range(first, first + 50)))
        state: dict[str, Any] = (await site.ask_state())["models"][NAME]
        assert state["in_flight"] == STREAMS, state
        used = (process.memory_full_info().uss - before) / 2**20
        for response in opened:
            response.close()
    return Row(
        f"{WHAT}, memory of {STREAMS:,} open streams in the gateway",
        used,
        "MiB",
        goal="at most 300",
        met=used <= 300,
    )


async def _asked(session: aiohttp.ClientSession, url: str, tokens: list[str]) -> _Times:
    """Return the seconds of requests that begin at RATE, however long others take."""
    times: _Times = []

    async def ask(number: int) -> None:
        headers = {"Authorization": f"Bearer {tokens[number % len(tokens)]}"}
        began = time.perf_counter()
        async with session.get(url, headers=headers) as response:
            await response.read()
            assert response.status == 200, response.status
        times.append(time.perf_counter() - began)

    for number in range(2 * _USERS):
        await ask(number)
    times.clear()
    start, tasks = time.perf_counter(), []
    for number in range(int(RATE * SECONDS)):
        await asyncio.sleep(max(0.0, start + number / RATE - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(number)))
    await asyncio.gather(*tasks)
    return times


def _of(times: _Times) -> tuple[float, float]:
    """Return p50 and p95 in milliseconds."""
    cuts = statistics.quantiles(times, n=20)
    return 1000 * cuts[9], 1000 * cuts[18]
