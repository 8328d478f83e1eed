"""The launch page and the catalog's page with two hundred environments, from the Hub and the
service of a running demo."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.demo.hub_client import Person

from .cluster import Cluster, NotMeasured, wait_for
from .report import Row

NUMBER = 200
TIMES = 100
WHAT = f"With {NUMBER} environments"
WHO = "ada"
LAUNCH, CATALOG = "/hub/spawn", "/services/portal/catalog"
_TEXT = "What it is for, with **CUDA** and `pip`.\n\n- one\n- [two](https://example.org)\n\n" * 8


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; takes half a minute."""
    person = Person(str(cluster.state["url"]), WHO)
    if not person.logged_in:
        raise NotMeasured(f"{WHO} could not log in")
    few = {page: _percentile(person, page) for page in (LAUNCH, CATALOG)}
    with environments(Path(cluster.state["environments"])) as titles:
        for page in (LAUNCH, CATALOG):
            wait_for(
                f"all of them on {page}",
                lambda page=page: all(title in person.http.get(page).text for title in titles),
                30,
            )
        many = {page: _percentile(person, page) for page in (LAUNCH, CATALOG)}
    peer = "the demo's own few"
    return [
        Row(
            f"{WHAT}: the launch page's server time, 95th percentile",
            many[LAUNCH],
            "ms",
            peer,
            few[LAUNCH],
            goal="under 100",
            met=many[LAUNCH] < 100,
        ),
        Row(
            f"{WHAT}: the catalog page's server time, 95th percentile",
            many[CATALOG],
            "ms",
            peer,
            few[CATALOG],
        ),
    ]


@contextlib.contextmanager
def environments(directory: Path) -> Iterator[list[str]]:
    """Add NUMBER files to the catalog while the block runs; yield their titles."""
    files, titles = [], []
    try:
        for number in range(NUMBER):
            definition = {
                "name": f"bench-{number:03}",
                "title": f"Benchmark environment {number:03}",
                "kind": "venv",
                "path": "/usr",
                "description": _TEXT,
                "tags": ["bench", f"group {number % 20}", f"version {number % 7}"],
                "default": {"cpus": 2, "memory": "4G"},
                "order": 500 + number,
            }
            files.append(directory / f"{definition['name']}.yaml")
            files[-1].write_text(json.dumps(definition))
            titles.append(str(definition["title"]))
        yield titles
    finally:
        for path in files:
            path.unlink()


def _percentile(person: Person, page: str) -> float:
    """Return the 95th percentile of the milliseconds from request to last byte, on this machine."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        response = person.http.get(page)
        times.append((time.perf_counter() - began) * 1000)
        if response.status_code != 200 or response.url.path != page:
            raise NotMeasured(f"{page} answered {response.status_code} from {response.url.path}")
    return statistics.quantiles(times, n=20)[-1]
