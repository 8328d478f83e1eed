"""The loop: who shares a refresh, what it remembers, and what cannot stop it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from clusters import ADA, GRACE, STRANGER, job, node, pool, reading, record, snapshot, waiting
from fake_watcher import ToldCluster, ToldTelemetry
from machine_clock import awake

from portal.dashboard import Dashboard, sessions
from portal.dashboard import dashboard as dashboard_module
from portal.dashboard.builder import Builder
from portal.dashboard.view import Placed
from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.history import ClusterSample
from portal.models.person import Person
from portal.models.session.session import SessionState
from portal.slurm import Cluster, SlurmRunner
from portal.store import Store
from tests.benchmarks.synthetic import synthetic


def told(**more: str) -> ClusterSnapshot:
    return snapshot(
        node("gpu01", pool(4, 0, 1), state="MIXED"),
        node("gpu02", pool(2), state="IDLE+DRAIN"),
        job("7", held={"gpu01": (0,)}),
        job("8", "eve", held={"gpu01": (1,)}),
        waiting("9"),
        at=time.time(),
        **more,
    )


@pytest.fixture(autouse=True)
def a_database_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_PATIENCE", 60)
    monkeypatch.setattr(dashboard_module, "_LAST_WORDS", 60)


def dashboard_of(store: Store | None, telemetry: ToldTelemetry | None = None) -> Dashboard:
    telemetry = telemetry or ToldTelemetry()
    return Dashboard(cluster=ToldCluster(told()), telemetry=telemetry, store=store)


async def samples(dashboard: Dashboard, store: Store) -> list[ClusterSample]:
    """What the history has, exactly: points of a minute each."""
    await dashboard._history.settle()
    now = time.time()
    points = await store.history.points(now - 3600, now + 60, 61)
    return [one for one in points if one.gpus_total is not None]


# -- refreshes -----------------------------------------------------------------------------


async def test_callers_at_the_same_time_share_a_refresh() -> None:
    dashboard = dashboard_of(None)
    await asyncio.gather(*(dashboard.refreshed() for _ in range(100)))
    assert dashboard.cluster.asked <= 2  # one may have begun before some of them asked
    asked = dashboard.cluster.asked
    await dashboard.refreshed(newer=False)
    assert dashboard.cluster.asked == asked
    await dashboard.refreshed()
    assert dashboard.cluster.asked == asked + 1


async def test_the_loop_refreshes_until_it_is_cancelled() -> None:
    dashboard = dashboard_of(None)
    dashboard.refresh_interval = 1.0
    running = asyncio.create_task(dashboard.run())
    stream = dashboard.events(GRACE, None)
    for _ in range(100):
        if dashboard.view is not None and dashboard.view.version >= 2:
            break
        await asyncio.sleep(0.05)
    assert dashboard.view is not None and dashboard.view.version == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert stream.closed  # nobody waits for what does not come any more


async def test_a_fault_of_ours_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dashboard = dashboard_of(None)
    dashboard.refresh_interval = 1.0
    calls = 0
    build = Builder.build

    def broken(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a fault")
        return build(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Builder, "build", broken)
    running = asyncio.create_task(dashboard.run())
    for _ in range(100):
        if dashboard.view is not None:
            break
        await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert dashboard.view is not None
    assert calls == 2


async def test_viewers_cost_slurm_nothing() -> None:
    """The same questions for 1 and for 200 viewers who look, page and follow the stream."""
    counts = []
    with synthetic(10, 100) as slurm:
        for viewers in (1, 200):
            runner = SlurmRunner(bin_dir=str(slurm.bin))
            cluster = Cluster(
                runner=runner, rpcs_per_second=100.0, burst=100, patience=60, partitions_ttl=3600
            )
            dashboard = Dashboard(cluster=cluster, telemetry=ToldTelemetry())
            await dashboard.refreshed()
            people = [Person(name=f"user{number:03d}") for number in range(viewers)]
            streams = [dashboard.events(person, dashboard.view.id) for person in people]
            for _ in range(3):
                await dashboard.refreshed()
                for person in people:
                    assert dashboard.jobs_for(person)
                    assert dashboard.gpus_for(person)
                    assert await dashboard.board(person)
            for stream in streams:
                frame = b""
                while b"event: change" not in frame:
                    frame = await anext(stream)
            counts.append(dict(runner.runs))
            cluster.close()
    assert counts[0] == counts[1]


async def test_a_cluster_that_changes_is_followed_exactly() -> None:
    """Through the real parser: what changes say, step by step, is what the view has at the end."""
    with synthetic(20, 200, churn=0.1) as slurm:
        runner = SlurmRunner(bin_dir=str(slurm.bin))
        cluster = Cluster(
            runner=runner,
            rpcs_per_second=1000.0,
            burst=1000,
            urgent_interval=0.0,
            patience=60,
            partitions_ttl=3600,
        )
        dashboard = Dashboard(cluster=cluster, telemetry=ToldTelemetry())
        await dashboard.refreshed()
        first = dashboard.view
        nodes, gpus, jobs = dict(first.nodes), dict(first.gpus), dict(first.jobs)
        for _ in range(10):
            await asyncio.to_thread(slurm.step)
            await dashboard.refreshed()
        assert dashboard.error == ""
        steps = dashboard.changes_since(GRACE, dashboard.stream, first.version)
        assert len(steps) == 10
        assert any(step.jobs and step.gone_jobs and step.gpus and step.nodes for step in steps)
        for step in steps:
            nodes |= step.nodes
            gpus |= step.gpus
            jobs |= step.jobs
            for id_ in step.gone_jobs:
                del jobs[id_]
        fresh = Builder().build(dashboard.view.snapshot, (), {}, dashboard.telemetry.busy)
        assert dashboard.view.gpus == fresh.gpus == gpus
        assert dashboard.view.nodes == fresh.nodes == nodes
        assert dashboard.view.jobs.bare == fresh.jobs
        assert dashboard.view.jobs == Placed(fresh.jobs, fresh.positions)
        soft = {"position": None, "expected_start": None}
        assert {id_: one.altered(**soft) for id_, one in jobs.items()} == {
            id_: one.altered(**soft) for id_, one in fresh.jobs.items()
        }
        held = [one for one in fresh.gpus.values() if one.state == "allocated"]
        assert held and all(one.job_id for one in held if one.job_id in fresh.jobs)
        cluster.close()


# -- what it remembers ---------------------------------------------------------------------


async def test_a_sample_a_minute(store: Store) -> None:
    telemetry = ToldTelemetry(reading("gpu01", 0, 90.0), reading("gpu01", 1, 0.0))
    dashboard = dashboard_of(store, telemetry)
    await store.sessions.save(record("s1", "7"))
    if time.time() % 60 > 50:  # all three in one minute of the clock
        await asyncio.sleep(60 - time.time() % 60)
    for _ in range(3):
        await dashboard.refreshed()
    (one,) = await samples(dashboard, store)
    assert (one.gpus_total, one.gpus_allocated, one.gpus_unusable, one.gpus_busy) == (6, 2, 2, 1)
    assert (one.jobs_running, one.jobs_pending) == (2, 1)
    assert (one.sessions_running, one.sessions_pending) == (1, 0)


async def test_quantities_by_name_and_the_use_of_jobs_are_recorded(store: Store) -> None:
    telemetry = ToldTelemetry(reading("gpu01", 0, 90.0, power=200.0, memory_used=512))
    dashboard = dashboard_of(store, telemetry)
    running = asyncio.create_task(dashboard.run())
    while dashboard.job_uses.use_of("7") is None:
        await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    now = time.time()
    _, series = await store.series.means(now - 120, now + 60, 3, now)
    assert {(str(one.kind), one.name): max(v or 0 for v in one.values) for one in series} == {
        ("power", "v100"): 200.0,
        ("queue", "gpu/priority"): 1.0,
    }
    _, nodes = await store.series.nodes(now)
    assert (nodes["gpu01"].held[-1], nodes["gpu01"].used[-1]) == (50.0, 22.5)
    # The last state is written when the service ends, too.
    (use,) = await store.job_use.of_job("7", now - 120, now)
    assert (use.gpu, use.gpu_memory, use.sources) == ((90,), (512,), "dcgm")


async def test_without_telemetry_nobody_knows_what_is_busy(store: Store) -> None:
    dashboard = dashboard_of(store)
    await dashboard.refreshed()
    (one,) = await samples(dashboard, store)
    assert one.gpus_busy is None


async def test_a_minute_in_which_slurm_did_not_answer_has_no_sample(store: Store) -> None:
    dashboard = dashboard_of(store)
    dashboard.cluster.told = told(error="Slurm does not answer.")
    await dashboard.refreshed()
    assert await samples(dashboard, store) == []


async def test_old_samples_are_forgotten(store: Store) -> None:
    old = time.time() - (store.history_days + 1) * 86_400
    await store.history.add_samples(ClusterSample(at=old, gpus_total=1))
    dashboard = dashboard_of(store)
    await dashboard.refreshed()
    await dashboard._history.settle()
    points = await store.history.points(old - 100, old + 100, 2)
    assert [one.gpus_total for one in points] == [None] * len(points)


async def test_usage_is_accounted(store: Store) -> None:
    dashboard = dashboard_of(store, ToldTelemetry(reading("gpu01", 0, 90.0)))
    at = {"submit_time": time.time() - 200, "start_time": time.time() - 100}
    dashboard.cluster.told = snapshot(job("7", held={"gpu01": (0,)}, **at), at=time.time())
    await store.sessions.save(record("s1", "7"))
    running = asyncio.create_task(dashboard.run())
    while dashboard.view is None:
        await asyncio.sleep(0.05)
    await dashboard._meter.settle()
    await dashboard.refreshed()
    running.cancel()  # the end writes what is left
    await asyncio.gather(running, return_exceptions=True)
    usage = await store.usage.of_sessions(["s1"])
    assert 90 < usage["s1"].held < 200
    assert (usage["s1"].user, usage["s1"].environment) == ("ada", "pytorch")


# -- the database ---------------------------------------------------------------------------


async def test_sessions_come_from_the_database(store: Store) -> None:
    await store.sessions.save(record("s1", "7"))
    await store.sessions.save(record("s2", "8", "eve", state=SessionState.ENDED))
    dashboard = dashboard_of(store)
    await dashboard.refreshed()
    assert {id_: one.id for id_, one in dashboard.view.sessions.items()} == {"7": "s1"}
    assert dashboard.job_for(ADA, "7").session_id == "s1"
    assert dashboard.job_for(STRANGER, "7").session_id is None


async def test_a_database_that_is_away_stops_nothing(tmp_path: Path) -> None:
    store = Store(url=f"sqlite:///{tmp_path}/nowhere/portal.sqlite")
    dashboard = dashboard_of(store)
    began = awake()
    for version in (1, 2):
        await dashboard.refreshed()
        assert dashboard.view.version == version
        assert dashboard.view.jobs.keys() == {"7", "8", "9"}
    assert awake() - began < 5
    await store.close()


async def test_the_last_known_sessions_stay_while_the_database_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.sessions.save(record("s1", "7"))
    dashboard = dashboard_of(store)
    await dashboard.refreshed()
    monkeypatch.setattr(sessions, "_PATIENCE", 1)

    async def hangs() -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(store.sessions, "living", hangs)
    began = awake()
    await dashboard.refreshed()
    assert awake() - began < 3
    assert dashboard.view.sessions["7"].id == "s1"
    assert dashboard.changes_since(GRACE, dashboard.stream, 1)[0].jobs == {}
    dashboard._sessions._living._question.task.cancel()


async def test_slurm_away_from_the_beginning_and_back(store: Store) -> None:
    dashboard = dashboard_of(store)
    dashboard.cluster.told = SlurmUnavailable("Slurm does not answer.")
    await dashboard.refreshed()
    assert (dashboard.view, dashboard.error) == (None, "Slurm does not answer.")
    dashboard.cluster.told = told()
    await dashboard.refreshed()
    assert (dashboard.view.version, dashboard.error) == (1, "")
