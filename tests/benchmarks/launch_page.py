"""The launch page and the catalog's page with two hundred environments, as Hub and service of a
running demo answer them."""

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
    """The rows; takes half a minute."""
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
    """As many more files in the catalog for as long as the block runs; their titles."""
    made, titles = [], []
    try:
        for number in range(NUMBER):
            one = {
                "name": f"bench-{number:03}",
                "title": f"Benchmark environment {number:03}",
                "kind": "venv",
                "path": "/usr",
                "description": _TEXT,
                "tags": ["bench", f"group {number % 20}", f"version {number % 7}"],
                "default": {"cpus": 2, "memory": "4G"},
                "order": 500 + number,
            }
            made.append(directory / f"{one['name']}.yaml")
            made[-1].write_text(json.dumps(one))
            titles.append(str(one["title"]))
        yield titles
    finally:
        for path in made:
            path.unlink()


def _percentile(person: Person, page: str) -> float:
    """Milliseconds from the request to the last byte, by a client on the same machine."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        answer = person.http.get(page)
        times.append((time.perf_counter() - began) * 1000)
        if answer.status_code != 200 or answer.url.path != page:
            raise NotMeasured(f"{page} answered {answer.status_code} from {answer.url.path}")
    return statistics.quantiles(times, n=20)[-1]
