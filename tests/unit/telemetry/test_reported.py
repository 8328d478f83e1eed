"""A report is as old as it is, whoever sets the machine's clock meanwhile."""

from __future__ import annotations

import time

import pytest
from stepping_clock import SteppingClock

from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.cluster.gpu import GpuReading
from portal.models.session.telemetry import TelemetryReport
from portal.telemetry import Telemetry
from portal.telemetry.reported import Reported


@pytest.mark.parametrize("seconds", [3600.0, 10.0, -10.0, -3600.0, -86_400.0])
def test_a_step_neither_loses_nor_keeps_a_report(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    clock, uptime = SteppingClock(monkeypatch), time.monotonic()
    monkeypatch.setattr("portal.telemetry.reported.time.monotonic", lambda: uptime)
    job = Job(
        id="10", state=JobState.RUNNING, nodes=("gpu01",), gpus=1, gpu_indexes={"gpu01": (0,)}
    )
    snapshot = ClusterSnapshot(taken_at=time.time(), jobs={"10": job})
    report = TelemetryReport.model_validate(
        {"job_id": "10", "gpus": [{"index": 0, "utilization": 50}]}
    )
    reported = Reported()
    reported.take(job, report, time.time())
    clock.step(seconds)
    uptime += 59
    assert set(reported.readings(snapshot, 60.0)) == {("gpu01", 0)}
    uptime += 2
    assert reported.readings(snapshot, 60.0) == {}


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
async def test_a_reading_of_a_source_that_is_away_is_as_old_as_it_is(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    clock, uptime = SteppingClock(monkeypatch), time.monotonic()
    telemetry = Telemetry(source="simulated", max_age=60)
    job = Job(
        id="10", state=JobState.RUNNING, nodes=("gpu01",), gpus=1, gpu_indexes={"gpu01": (0,)}
    )
    snapshot = ClusterSnapshot(taken_at=time.time(), jobs={"10": job})
    await telemetry.refresh(snapshot)
    (gpu,) = telemetry.accountable(snapshot)
    monkeypatch.setattr("portal.telemetry.time.monotonic", lambda: uptime)
    assert isinstance(telemetry.accountable(snapshot)[gpu], GpuReading)
    clock.step(seconds)
    uptime += 55
    assert set(telemetry.accountable(snapshot)) == {gpu}
    uptime += 10
    assert telemetry.accountable(snapshot) == {}
