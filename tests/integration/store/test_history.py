"""The cluster over time."""

from __future__ import annotations

import math

import pytest

from portal.errors import InvalidRequest
from portal.models.cluster.history import ClusterSample
from portal.store import Store

DAY = 86400


async def test_a_point_is_the_mean_of_its_samples(store: Store) -> None:
    await store.history.add_samples(
        ClusterSample(at=600, gpus_total=8, gpus_busy=3, jobs_running=10)
    )
    await store.history.add_samples(
        ClusterSample(at=659.9, gpus_total=6, gpus_busy=4, jobs_running=20)
    )
    await store.history.add_samples(ClusterSample(at=660, gpus_total=8, gpus_allocated=1))
    first, second, third = await store.history.points(600, 780, 100)
    assert (first.at, first.seconds) == (600, 60)
    assert (first.gpus_total, first.gpus_busy, first.jobs_running) == (7.0, 3.5, 15.0)
    assert (second.gpus_total, second.gpus_allocated) == (8.0, 1.0)
    # No sample is not a cluster without GPUs.
    assert set(third.model_dump(exclude={"at", "seconds"}).values()) == {None}


async def test_busy_is_the_mean_of_those_that_know_it(store: Store) -> None:
    for minute, busy in enumerate([None, 2, 4, None]):
        await store.history.add_samples(ClusterSample(at=minute * 60, gpus_total=8, gpus_busy=busy))
    await store.history.add_samples(ClusterSample(at=600, gpus_total=8, gpus_busy=None))
    points = await store.history.points(0, 1200, 2)
    assert [(one.gpus_total, one.gpus_busy) for one in points] == [(8.0, 3.0), (8.0, None)]


@pytest.mark.parametrize(
    ("span", "points", "width"),
    [
        (3600, 600, 60),
        (3600, 10, 600),
        (DAY, 300, 300),
        (7 * DAY, 400, 1800),
        (30 * DAY, 400, 7200),
        (365 * DAY, 400, DAY),
        (3650 * DAY, 500, 8 * DAY),
    ],
)
async def test_there_are_never_more_points_than_asked_for(
    store: Store, span: int, points: int, width: int
) -> None:
    end = 1763700123.4
    found = await store.history.points(end - span, end, points)
    assert 0 < len(found) <= points
    assert {one.seconds for one in found} == {width}
    assert found[0].at <= end - span < found[0].at + width
    assert found[-1].at < end <= found[-1].at + width


async def test_a_year_and_a_day_tell_the_same(store: Store) -> None:
    """The long view is read from sums of hours, the short one from those of minutes."""
    start = 1700000000 // DAY * DAY
    for minute in range(0, 24 * 60, 7):
        await store.history.add_samples(
            ClusterSample(at=start + minute * 60, gpus_total=100, gpus_allocated=minute % 90)
        )
    minutes = await store.history.points(start, start + DAY, 1440)
    known = [one.gpus_allocated for one in minutes if one.gpus_allocated is not None]
    year = await store.history.points(start - 200 * DAY, start + 165 * DAY, 400)
    (day,) = [one for one in year if one.gpus_allocated is not None]
    assert day.at == start
    assert day.gpus_allocated == pytest.approx(sum(known) / len(known))


async def test_what_is_old_is_forgotten(store: Store) -> None:
    for day in range(3):
        await store.history.add_samples(ClusterSample(at=day * DAY, gpus_total=8))
    assert await store.history.prune(2 * DAY) == 4  # a minute and an hour of two days
    points = await store.history.points(0, 3 * DAY, 3)
    assert [one.gpus_total for one in points] == [None, None, 8.0]


@pytest.mark.parametrize(("start", "end"), [(100.0, 100.0), (1e9, 0.0), (1e9, 1e9 - 60)])
async def test_nothing_between(store: Store, start: float, end: float) -> None:
    assert len(await store.history.points(start, end, 100)) <= 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
async def test_impossible_times_are_refused(store: Store, bad: float) -> None:
    with pytest.raises(InvalidRequest):
        await store.history.points(bad, 1e9, 100)
    with pytest.raises(InvalidRequest):
        await store.history.points(0, bad, 100)
    with pytest.raises(InvalidRequest):
        await store.history.add_samples(ClusterSample(at=bad))
