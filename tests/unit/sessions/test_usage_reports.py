"""What a session says of itself is shown to its owner, and changes nobody's usage."""

from __future__ import annotations

import logging
import time

from session_records import recorded

from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Job, JobState, Node
from portal.models.session.telemetry import ReportedGpu, TelemetryReport
from portal.sessions.efficiency import Source, efficiency_of
from portal.sessions.meter import UsageMeter
from portal.store import Store
from portal.telemetry import Telemetry, sums

REPORT = TelemetryReport(
    job_id="7",
    gpus=(ReportedGpu(index=0, minor=0, utilization=100.0, memory_used=9, memory_total=16384),),
    memory_used=900,
)


class Minute:
    """A session of five minutes with one GPU, in its last minute (telemetry compares with the
    clock, so it is the last one)."""

    def __init__(self) -> None:
        self.now = time.time()
        pool = GpuPool(type="v100", count=4, used=1, used_indexes=(0,))
        self.node = Node(name="gpu01", address="gpu01", state="MIXED", gpus=(pool,))
        self.job = Job(
            id="7",
            user="ada",
            state=JobState.RUNNING,
            nodes=("gpu01",),
            gpus=1,
            gpu_indexes={"gpu01": (0,)},
            submit_time=self.now - 400,
            start_time=self.now - 300,
            end_time=self.now + 3600,
        )
        self.record = recorded(
            id="s1",
            user="ada",
            account="ada",
            environment="lab",
            job_id="7",
            options={"gpus": 1},
            submitted_at=self.now - 400,
            started_at=self.now - 300,
        )

    def snapshot(self, at: float) -> ClusterSnapshot:
        return ClusterSnapshot(taken_at=at, jobs={"7": self.job}, nodes={"gpu01": self.node})

    async def pass_by(self, store: Store, telemetry: Telemetry) -> tuple[float, float | None]:
        """Seven looks, each with a report that says 100 %; held seconds and used hours."""
        meter = UsageMeter(store, logging.getLogger("test-usage"), uptime=lambda: self.now)
        for second in range(-60, 1, 10):
            at = self.now + second
            snapshot = self.snapshot(at)
            telemetry.take(self.job, REPORT, at)
            await telemetry.refresh(snapshot)
            readings = telemetry.accountable(snapshot)
            await meter.see(snapshot, readings, telemetry.busy, {"7": self.record}, at)
            await meter.settle()
            told = sums(REPORT, 10.0, telemetry.busy)
            await store.reports.add_report("s1", at=at, memory_used=900, **told)
        await meter.close(self.now)
        rows = await store.usage.mine("ada", "month", self.now - 86_400, self.now + 1)
        return sum(row.held_hours for row in rows) * 3600, rows[-1].used_hours


async def test_a_report_is_seen_and_not_accounted(store: Store) -> None:
    minute, telemetry = Minute(), Telemetry(source="none")
    held, used = await minute.pass_by(store, telemetry)
    assert (round(held), used) == (300, None)
    readings = telemetry.readings(minute.snapshot(minute.now))
    assert [one.source for one in readings.values()] == ["session"]
    usage = (await store.usage.of_sessions(["s1"]))["s1"]
    reports = (await store.reports.of_sessions(["s1"]))["s1"]
    found = efficiency_of(minute.record, usage, reports, now=minute.now)
    assert (found.gpu_busy_share, found.gpu_source) == (1.0, Source.SESSION)
    assert (found.memory_peak, found.memory_source) == (900, Source.SESSION)


async def test_a_report_does_not_outdo_the_sites_telemetry(store: Store) -> None:
    telemetry = Telemetry(source="simulated", busy_percent=100.0)  # what is invented is never busy
    held, used = await Minute().pass_by(store, telemetry)
    assert (round(held), used) == (300, 0)
