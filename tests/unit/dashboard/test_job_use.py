"""Use of jobs over time: what is measured, in few numbers, and what is written when."""

from __future__ import annotations

import asyncio

from clusters import NOW, job, node, pool, reading, snapshot
from fake_watcher import ToldCluster, ToldTelemetry

from portal.dashboard import ClusterView, Dashboard
from portal.dashboard.job_use import JobUses
from portal.models.cluster.cluster import JobState
from portal.models.cluster.gpu import GpuReading

RUNS = job("7", held={"gpu01": (0, 1)}), job("8", held={"gpu01": (2,)})
READINGS = (
    reading("gpu01", 0, 100.0, memory_used=1000),
    reading("gpu01", 1, 50.0, memory_used=500),
    reading("gpu01", 3, 9.0),  # of a GPU that nobody holds
)


def view(*jobs: object) -> ClusterView:
    dashboard = Dashboard(
        cluster=ToldCluster(snapshot(node("gpu01", pool(4, 0, 1, 2)), *jobs)),
        telemetry=ToldTelemetry(),
    )
    asyncio.run(dashboard.refreshed())
    assert dashboard.view is not None
    return dashboard.view


def by_gpu(*readings: GpuReading) -> dict[tuple[str, int], GpuReading]:
    return {(one.node, one.index): one for one in readings}


def test_a_job_has_the_mean_of_its_gpus_and_the_sum_of_their_memory() -> None:
    uses, seen = JobUses(), view(*RUNS)
    uses.take(seen, by_gpu(*READINGS), {}, NOW)
    uses.take(seen, by_gpu(reading("gpu01", 0, 30.0)), {"7": 2048}, NOW + 60)
    use = uses.use_of("7")
    assert use is not None
    assert (use.began_at, use.seconds, use.sources) == (NOW, 60, "dcgm")
    assert (use.gpu, use.gpu_memory, use.memory) == ((75, 30), (1500, None), (None, 2048))
    assert uses.use_of("8") is None, "nothing measures it"


def test_each_gpu_of_several_has_its_own_use() -> None:
    ranks = job("9", held={"gpu01": (0, 1), "gpu02": (3,)})
    uses, seen = JobUses(), view(ranks, *RUNS[1:])
    loads = [("gpu01", 0, 90.0), ("gpu01", 1, 80.0), ("gpu01", 2, 1.0), ("gpu02", 3, 10.0)]
    uses.take(seen, by_gpu(*(reading(*load) for load in loads)), {}, NOW)
    uses.take(seen, by_gpu(reading("gpu02", 3, 30.0)), {}, NOW + 60)
    use = uses.use_of("9")
    assert use is not None
    assert use.gpus == {"gpu01:0": (90, None), "gpu01:1": (80, None), "gpu02:3": (10, 30)}
    assert use.gpu == (60, 30)
    single = uses.use_of("8")
    assert single is not None and single.gpus == {}


def test_the_gpus_of_a_long_job_have_few_numbers_too() -> None:
    uses, seen = JobUses(), view(job("9", held={"gpu01": tuple(range(40))}))
    for minute in range(300):
        loads = [reading("gpu01", n, 100.0 if minute < 150 else 0.0) for n in range(40)]
        uses.take(seen, by_gpu(*(loads if minute else loads[:1])), {}, NOW + 60 * minute)
    use = uses.use_of("9")
    assert use is not None and use.seconds == 240
    assert len(use.gpus) == 32 and {len(values) for values in use.gpus.values()} == {75}
    assert use.gpus["gpu01:31"][:38] == (100,) * 37 + (50,)
    assert use.gpus["gpu01:31"][38:] == (0,) * 37


def test_a_long_job_has_no_more_numbers_than_a_short_one() -> None:
    uses, seen = JobUses(), view(*RUNS)
    for minute in range(1000):
        load = 80.0 if minute < 480 else 0.0
        uses.take(seen, by_gpu(reading("gpu01", 2, load)), {}, NOW + 60 * minute)
    use = uses.use_of("8")
    assert use is not None
    assert (use.seconds, len(use.gpu)) == (960, 63)
    assert use.gpu[:30] == (80,) * 30 and use.gpu[30:] == (0,) * 33
    # A gap, as of a service that was suspended, is not filled in.
    uses.take(seen, by_gpu(reading("gpu01", 2, 40.0)), {}, NOW + 60 * 1200)
    use = uses.use_of("8")
    assert use is not None and use.gpu[63:75] == (None,) * 12 and use.gpu[75] == 40


def test_each_job_is_written_in_its_turn_and_at_its_end() -> None:
    uses, seen = JobUses(), view(*RUNS)
    written = [
        use.job_id
        for minute in range(5)
        for use in uses.take(seen, by_gpu(*READINGS), {"8": 1}, NOW + 60 * minute)
    ]
    assert sorted(written) == ["7", "8"]
    assert {use.job_id for use in uses.running()} == {"7", "8"}
    ended = RUNS[1].model_copy(update={"state": JobState.COMPLETED})
    (last,) = [
        use for use in uses.take(view(ended), by_gpu(*READINGS), {}, NOW + 300) if use.job_id == "8"
    ]
    assert len(last.memory) == 5
    assert uses.running() == [], "7 is gone, too"


def test_a_clock_that_is_set_back_spoils_nothing() -> None:
    uses, seen = JobUses(), view(*RUNS)
    uses.take(seen, by_gpu(*READINGS), {}, NOW)
    uses.take(seen, by_gpu(*READINGS), {}, NOW - 3600)
    use = uses.use_of("7")
    assert use is not None and use.gpu == (75,)
