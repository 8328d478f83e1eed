"""The launch page beside that of jupyterhub_moss on the same Slurm: visits alone and at once, and
what they ask slurmctld."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from tests.support.demo.hub_client import Person

from .cluster import PEOPLE, ROOT, Cluster, NotMeasured
from .hub import BenchHub, bench_hub
from .report import Row

WHAT = "The launch page"
_PEER = "jupyterhub_moss 10.1.0"
VISITORS = PEOPLE[:20]
TIMES = 100  # visits alone, and those whose requests are counted
ROUNDS = 10  # of all visitors at once
_PAGE = "/hub/spawn"


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; the two Hubs run side by side and take turns."""
    place = cluster.place / "moss"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", f"--target={place}"]
    constraints = ROOT / "deploy/constraints.txt"
    if subprocess.run([*pip, f"--constraint={constraints}", "jupyterhub_moss"]).returncode:
        raise NotMeasured("jupyterhub_moss could not be installed")
    with (
        bench_hub(cluster, "page", VISITORS) as ours,
        bench_hub(cluster, "moss", VISITORS, PYTHONPATH=f"{ROOT}:{place}") as moss,
    ):
        return asyncio.run(_compare(cluster, _Visits(ours), _Visits(moss)))


class _Visits:
    """Visits of people who have logged in once."""

    def __init__(self, hub: BenchHub) -> None:
        self.address = urlsplit(hub.url)
        self._cookies = [_cookies(hub, name) for name in VISITORS]

    async def alone(self, number: int = 0) -> float:
        """Return the milliseconds from a visitor's request to the last byte."""
        # Not a client library: twenty of its visits would cost as much as the Hub's answers.
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection(self.address.hostname, self.address.port)
        writer.write(
            f"GET {_PAGE} HTTP/1.1\r\nHost: {self.address.netloc}\r\nConnection: close\r\n"
            f"Cookie: {self._cookies[number % len(VISITORS)]}\r\n\r\n".encode()
        )
        page = await reader.read()
        writer.close()
        if b" 200 " not in page[:20] or b"<form" not in page:
            raise NotMeasured(f"no launch page: {page[:300]!r}")
        return (time.perf_counter() - began) * 1000

    async def at_once(self) -> list[float]:
        """Return the milliseconds of a visit of each."""
        return await asyncio.gather(*map(self.alone, range(len(VISITORS))))


def _cookies(hub: BenchHub, name: str) -> str:
    person = Person(hub.url, name)
    if not person.logged_in:
        raise NotMeasured(f"{name} could not log in: {hub.last_words()}")
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in person.http.cookies.jar)


async def _compare(cluster: Cluster, *both: _Visits) -> list[Row]:
    alone: tuple[list[float], ...] = ([], [])
    at_once: tuple[list[float], ...] = ([], [])
    for _ in range(TIMES):
        for visits, times in zip(both, alone, strict=True):
            times.append(await visits.alone())
    for _ in range(ROUNDS):
        for visits, times in zip(both, at_once, strict=True):
            times += await visits.at_once()
    requests = [await _requests(cluster, visits) for visits in both]
    return [
        _row("a visit alone", [statistics.median(times) for times in alone], "ms"),
        _row(
            f"{len(VISITORS)} visits at once, 95th percentile",
            [statistics.quantiles(times, n=20)[-1] for times in at_once],
            "ms",
        ),
        _row(f"{TIMES} visits in {TIMES // 10} s: requests to slurmctld", requests, "", 0.1),
    ]


async def _requests(cluster: Cluster, visits: _Visits) -> int:
    """Count the requests of the Hub's account and of the visitors."""
    who = ("portal", *VISITORS)
    before = await asyncio.to_thread(cluster.requests_of, *who)
    for number in range(TIMES):
        await asyncio.gather(visits.alone(number), asyncio.sleep(0.1))
    return await asyncio.to_thread(cluster.requests_of, *who) - before


def _row(what: str, values: Sequence[float], unit: str, share: float = 0.75) -> Row:
    ours, moss = values
    goal = f"at most {share:g} x peer"
    return Row(f"{WHAT}: {what}", ours, unit, _PEER, moss, goal=goal, met=ours <= share * moss)
