"""The pages of runs with a hundred runs of a thousand points each: time of the service for the list
and for a run, and until the list is painted in a real browser."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from typing import Any

from portal.models.session.run import Curves, PointState, Run, RunPoint
from portal.store import Store
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

from .cluster import NotMeasured
from .page import PROGRAM, opened
from .report import Row
from .synthetic_service import Service, synthetic_service

RUNS, POINTS, VISITS, TIMES = 100, 1000, 5, 60
WHO = "grace"
WHAT = f"{RUNS} runs of {POINTS} points"
_FIRST = "00000000"  # id of the newest run
_MARKS = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  rows: document.querySelectorAll("#list tbody tr").length,
  at: performance.now(),
})"""


def measure() -> list[Row]:
    """Return the rows; takes a minute."""
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    with synthetic_service(10, 20, interval=60.0) as service:
        asyncio.run(fill(service.database))
        listed = _percentile(service, "api/v1/runs?limit=25")
        filtered = _percentile(service, "api/v1/runs?limit=25&text=train&state=failed")
        ids = ",".join(f"{number:08x}" for number in range(25))
        bests = _percentile(service, f"api/v1/run-bests?ids={ids}")
        run = _percentile(service, f"api/v1/runs/{_FIRST}?metric=loss")
        points = _percentile(
            service, f"api/v1/runs/{_FIRST}/points?sort=metric&metric=loss&limit=100"
        )
        values = _percentile(service, f"api/v1/runs/{_FIRST}/values")
        curves = _percentile(service, f"api/v1/runs/{_FIRST}/curves?curve=loss")
        visits = [_visit(service, "runs") for _ in range(VISITS)]
    paint, whole = (statistics.median(visit[index] for visit in visits) for index in (0, 1))
    print(f"  first paint, whole list: {visits} ms")
    return [
        Row(f"{WHAT}: the list, p95", listed, "ms", goal="under 200", met=listed < 200),
        Row(
            f"{WHAT}: the list, filtered, p95", filtered, "ms", goal="under 200", met=filtered < 200
        ),
        Row(f"{WHAT}: the best points of 25, p95", bests, "ms", goal="under 200", met=bests < 200),
        Row(f"{WHAT}: a run with its best points, p95", run, "ms", goal="under 200", met=run < 200),
        Row(
            f"{WHAT}: its points by a metric, p95", points, "ms", goal="under 200", met=points < 200
        ),
        Row(f"{WHAT}: its parallel coordinates, p95", values, "ms"),
        Row(f"{WHAT}: its curves, p95", curves, "ms"),
        Row(f"{WHAT}: first paint of the list", paint, "ms", goal="under 1000", met=paint < 1000),
        Row(f"{WHAT}: the list with its rows", whole, "ms"),
    ]


async def fill(database: str, user: str = WHO, runs: int = RUNS, points: int = POINTS) -> None:
    """Write runs of ``user`` into a database, as the service would have: the newest has the id
    00000000, and is the only one that has not ended."""
    store, now = Store(url=database), time.time()
    for number in range(runs):
        await store.table(RunTable).add_run(_run(number, user, points, now))
        key = (user, f"{number:08x}")
        await store.table(RunPointTable).save([(key, _point(n, points)) for n in range(points)])
        if number < 2:
            await store.table(RunCurveTable).save([(key, n, 1, _curves(n)) for n in range(points)])
    await store.close()


def _run(number: int, user: str, points: int, now: float) -> Run:
    return Run(
        id=f"{number:08x}",
        name=f"rates-{number}",
        source="work/train.ipynb",
        folder=f"/home/{user}/projects/runs/rates-{number}",
        points=points,
        at_once=50,
        user=user,
        server=f"run-{number:08x}",
        environment="jupyterlab" if number % 2 else "pytorch",
        resources={"gpus": 1 + number % 2, "memory": "8G"},
        created_at=now - 3600 * number,
        ended_at=None if number == 0 else now - 3600 * number + 1800,
        job_id=str(1000 + number),
    )


def _point(number: int, points: int) -> RunPoint:
    state = PointState.FAILED if number % 17 == 3 else PointState.SUCCEEDED
    rate, depth = 10 ** -(1 + 4 * (number * 37 % points) / points), (18, 34, 50)[number % 3]
    loss = 0.2 + abs(math.log10(rate) + 3) / depth * 10 + (number * 7919 % 100) / 500
    return RunPoint(
        number=number,
        state=state,
        attempt=1,
        job=f"1000_{number}",
        cell=4 if state is PointState.FAILED else 9,
        cells=9,
        message="ValueError: the rate is too high (cell 4 of 9)." if number % 17 == 3 else "",
        metrics={"loss": loss, "accuracy": 1 / (1 + loss), "step": 100.0},
        parameters={
            "lr": rate,
            "depth": depth,
            "optimizer": ("adam", "sgd")[number % 2],
            "fast": number % 5 == 0,
        },
        started_at=1.7e9 + number,
        ended_at=1.7e9 + number + 300 + number % 60,
    )


def _curves(number: int) -> Curves:
    return {
        name: [
            (float(step), round(float(f"{start / (1 + step / (5 + number % 50)):.6g}"), 9))
            for step in range(200)
        ]
        for name, start in (("loss", 2.0), ("accuracy", 0.5))
    }


def _percentile(service: Service, path: str) -> float:
    """Return the 95th percentile of the milliseconds from request to last byte."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        service.get(path)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.quantiles(times, n=20)[-1]


def _visit(service: Service, path: str) -> tuple[float, float]:
    """Return the milliseconds from the navigation to the first paint and to the last row."""
    with opened(f"{service.url}{path}") as page:
        for _ in range(300):
            marks: dict[str, Any] = page.evaluate(_MARKS)
            if marks["paint"] and marks["rows"]:
                break
            page.wait_for_timeout(20)
        else:
            raise NotMeasured("the list did not come")
    return marks["paint"], marks["at"]
