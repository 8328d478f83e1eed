"""Quantities of the cluster over time, by name."""

from __future__ import annotations

from portal.models.cluster.history import ClusterSample, SeriesSample
from portal.store import Store

HOUR, DAY = 3600, 86400
NOW = 1_800_000_000.0 // DAY * DAY + 12 * HOUR


async def add(store: Store, at: float, *series: tuple[str, str, float, int]) -> None:
    samples = [
        SeriesSample(kind=kind, name=name, total=total, count=count)
        for kind, name, total, count in series
    ]
    sample = ClusterSample(at=at, gpus_total=8, series=tuple(samples))
    await store.history.add_samples(sample)
    await store.series.add_samples(sample)


async def means(
    store: Store, start: float, end: float, points: int
) -> tuple[list[int], dict[tuple[str, str], tuple[float | None, ...]]]:
    begins, series = await store.series.means(start, end, points, NOW)
    return list(begins), {(str(one.kind), one.name): one.values for one in series}


async def test_a_queue_is_empty_where_only_others_were_counted(store: Store) -> None:
    await add(store, NOW, ("queue", "gpu/limit", 4, 1), ("wait", "v100", 300.0, 2))
    await add(store, NOW + 60)
    await add(store, NOW + 120, ("wait", "v100", 60.0, 1))
    begins, found = await means(store, NOW, NOW + 240, 4)
    assert begins == [NOW, NOW + 60, NOW + 120, NOW + 180]
    assert found == {
        ("queue", "gpu/limit"): (4.0, 0.0, 0.0, None),
        ("wait", "v100"): (150.0, None, 60.0, None),
    }
    # A wait is the mean of the jobs, a queue that of the moments.
    _, found = await means(store, NOW, NOW + HOUR, 2)
    assert {key: values[0] for key, values in found.items()} == {
        ("queue", "gpu/limit"): 4 / 3,
        ("wait", "v100"): 120.0,
    }


async def test_a_stretch_is_an_hour_once_the_minutes_are_gone(store: Store) -> None:
    old = NOW - 5 * DAY
    for minute in range(0, 120, 10):
        await add(store, old + 60 * minute, ("power", "t4", 100.0 + minute, 1))
        await add(store, NOW + 60 * minute, ("power", "t4", 100.0, 1))
    before = await means(store, old, old + 2 * HOUR, 100)
    assert before[0] == [old, old + HOUR]
    assert before[1] == {("power", "t4"): (125.0, 185.0)}
    assert await store.series.prune(NOW - 400 * DAY, NOW) == 12
    assert await means(store, old, old + 2 * HOUR, 100) == before
    assert len((await means(store, NOW, NOW + 2 * HOUR, 200))[0]) == 120
    # After the days of c.Store.history_days, nothing is left.
    await store.series.prune(NOW - DAY, NOW)
    assert (await means(store, old, old + 2 * HOUR, 100))[1] == {}


async def test_a_node_has_a_day_of_hours(store: Store) -> None:
    for minute in (0, 1):
        held = ("held", "gpu01", 50.0 * minute, 1), ("held", "cpu01", 100.0, 1)
        await add(store, NOW - HOUR + 60 * minute, *held, ("used", "gpu01", 10.0, 1))
    await add(store, NOW - 3 * DAY, ("held", "gpu02", 1.0, 1))
    begins, nodes = await store.series.nodes(NOW)
    assert (len(begins), begins[-1], begins.step) == (24, NOW - HOUR, HOUR)
    assert set(nodes) == {"gpu01", "cpu01"}
    assert nodes["gpu01"].held == (*[None] * 23, 25.0)
    assert nodes["gpu01"].used == (*[None] * 23, 10.0)
    assert nodes["cpu01"].used == (None,) * 24
    assert (await means(store, NOW - DAY, NOW, 24))[1] == {}, "nodes have a plot of their own"
    # Their rows are few: one an hour, for two days.
    assert await store.series.prune(0, NOW) == 1
