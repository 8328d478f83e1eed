"""Figures of endpoints over time: what a minute added, by the gateway's counters."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from portal.store import Store
from portal.work.endpoint.collector import FigureCollector
from portal.work.endpoint.figures import (
    BOUNDS,
    KEPT,
    EndpointFigures,
    EndpointFigureTable,
    counts_of,
    gpu_hours,
    points_of,
    quantile,
)
from portal.work.endpoint.gateway import Gateway, GatewayState
from portal.work.endpoint.models import Endpoint, EndpointReplica, EndpointVersion
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

NOW = 1_790_000_040.0  # a multiple of 120
NONE = (0,) * (len(BOUNDS) + 1)


def latency(*counts: int) -> dict[str, Any]:
    """A histogram as the gateway's state has it, with these counts in its first buckets."""
    whole = [*counts, *NONE[len(counts) :]]
    names = [*map(str, BOUNDS), "+Inf"]
    return {"buckets": {name: sum(whole[: at + 1]) for at, name in enumerate(names)}, "sum": 1.0}


def test_counts_come_from_a_cumulative_histogram() -> None:
    assert counts_of(latency(3, 0, 2)) == (3, 0, 2, *NONE[3:])
    assert counts_of(None) == counts_of({"buckets": 3}) == NONE


@pytest.mark.parametrize(
    ("counts", "part", "seconds"),
    [
        ((), 0.5, None),
        ((10,), 0.5, 0.0025),  # in the middle of the first bucket
        ((10, 10), 0.5, 0.005),
        ((10, 10), 0.75, 0.0075),
        ((9, 0, 0, 1), 0.95, 0.0375),  # half of the fourth, from 25 to 50 ms
        ((0,) * len(BOUNDS) + (1,), 0.5, 600.0),  # beyond all bounds
    ],
)
def test_quantiles_as_prometheus_computes_them(
    counts: tuple[int, ...], part: float, seconds: float | None
) -> None:
    found = quantile((*counts, *NONE[len(counts) :]), part)
    assert found == (None if seconds is None else pytest.approx(seconds))


def row(at: float, **more: Any) -> EndpointFigures:
    return EndpointFigures(endpoint="embed", at=NOW + at, seconds=60.0, **more)


def test_rows_are_put_together_and_gaps_stay() -> None:
    rows = [
        row(60, requests=60, gpus=2, replicas=1, ready=1, latencies=(60, *NONE[1:]), waiting=3),
        row(120, requests=0, gpus=2, replicas=1, latencies=NONE),
        row(3600, requests=6, errors=3, gpus=4, replicas=2, latencies=NONE),
    ]
    width, points = points_of(rows, NOW, NOW + 3600, 30)
    assert width == 120.0
    assert [(each.requests, each.errors, each.gpus, each.ready) for each in points] == [
        (0.5, 0.0, 2.0, 0.5),
        (0.1, 0.05, 4.0, 0.0),
    ]
    assert points[0].p50 == pytest.approx(0.0025) and points[1].p50 is None
    assert points[0].waiting == 3 and points[0].at <= NOW + 60 < points[0].at + width
    assert gpu_hours(rows) == pytest.approx(8 / 60)
    assert points_of([], NOW, NOW + 60, 240) == (60.0, [])


class PlayedGateway(Gateway):
    """Gateway whose state is ours."""

    began: float = NOW
    said: dict[str, Any] | None = None

    async def state(self) -> GatewayState | None:
        if self.said is None:
            return None
        return GatewayState({"since": self.began, "models": self.said})


async def test_a_row_has_what_the_counters_grew_by(store: Store, tmp_path: Path) -> None:
    gateway = PlayedGateway(str(tmp_path))
    collector = FigureCollector(store, gateway, logging.getLogger("test"))
    await store.table(EndpointTable).add_endpoint(
        Endpoint(name="embed", user="ada", created_at=NOW)
    )
    version = EndpointVersion(
        endpoint="embed", number=0, created_at=NOW, environment="lab",
        command=("app", "{socket}"), resources={"gpus": 2},
    )  # fmt: skip
    await store.table(EndpointVersionTable).add_version(version)
    about = {"user": "ada", "endpoint": "embed", "version": 1, "environment": "lab"}
    table = store.table(EndpointReplicaTable)
    for id_, more in (("a", {"waited": 5.0, "ready_at": NOW}), ("b", {})):
        await table.add_replica(
            EndpointReplica(id=id_, command=("app",), created_at=NOW, **about, **more)
        )

    async def rows() -> list[EndpointFigures]:
        return await store.table(EndpointFigureTable).since("embed", 0.0)

    gateway.said = {"embed": {"requests": 100, "latency": latency(100)}}
    await collector.collect(NOW)
    assert await rows() == [], "what was before the service began is not counted"
    gateway.said = {"embed": {"requests": 130, "tokens": 7, "latency": latency(110, 20)}}
    await collector.collect(NOW + 60)
    (first,) = await rows()
    assert (first.requests, first.tokens, first.latencies[:3]) == (30, 7, (10, 20, 0))
    assert (first.replicas, first.ready, first.gpus) == (1, 1, 2), "one still waits for Slurm"

    gateway.said = None  # it is away, and its counters go on
    await collector.collect(NOW + 120)
    gateway.said = {"embed": {"requests": 132, "errors": 1, "latency": latency(112, 20)}}
    await collector.collect(NOW + 180)
    assert [(each.requests, each.errors, each.seconds) for each in (await rows())[1:]] == [
        (2, 1, 120.0)
    ]

    gateway.began, gateway.said = NOW + 200, {"embed": {"requests": 140, "latency": latency(140)}}
    await collector.collect(NOW + 240)
    assert (await rows())[-1].requests == 140, "another gateway counts from 0"

    await table.change("ada", "a", ended_at=NOW + 241)
    await collector.collect(NOW + 300)
    assert len(await rows()) == 3, "nothing happened"
    await collector.collect(NOW + 60 + KEPT + 1)
    assert [each.at for each in await rows()] == [NOW + 180, NOW + 240]
