"""Readings of GPUs: invented ones, sessions' own reports, and how they join Slurm's GPUs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from pydantic import ValidationError
from traitlets.config import Config

from portal.errors import InvalidRequest, NotAllowed
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Job, JobState, Node
from portal.models.cluster.gpu import GpuReading
from portal.models.session.telemetry import ReportedGpu, TelemetryReport
from portal.telemetry import Telemetry

NODES = ("gpu01", "gpu02")


def job(id: str = "7", **more: object) -> Job:
    values = {
        "state": JobState.RUNNING,
        "nodes": ("gpu01",),
        "gpus": 2,
        "gpu_indexes": {"gpu01": (1, 3)},
        "start_time": time.time() - 600,
        **more,
    }
    return Job(id=id, **values)


def snapshot(*jobs: Job, used: Sequence[int] | None = None) -> ClusterSnapshot:
    pool = GpuPool(
        type="v100",
        count=4,
        used_indexes=None if used is None else tuple(used),
        used=len(used or ()),
    )
    nodes = {
        name: Node(name=name, address="127.0.0.1", state="MIXED", gpus=(pool,)) for name in NODES
    }
    return ClusterSnapshot(taken_at=time.time(), nodes=nodes, jobs={one.id: one for one in jobs})


def report(*gpus: dict, job_id: str = "7", **more: object) -> TelemetryReport:
    named = tuple({"index": number, **gpu} for number, gpu in enumerate(gpus))
    return TelemetryReport.model_validate({"job_id": job_id, "gpus": named, **more})


# -- simulated ------------------------------------------------------------------------------------


async def test_only_gpus_that_a_job_holds_are_simulated_and_they_say_so() -> None:
    telemetry = Telemetry(source="simulated")
    assert telemetry.simulated and telemetry.taken_at is None
    cluster = snapshot(job(), job("8", state=JobState.PENDING, gpu_indexes={"gpu02": (0,)}))
    await telemetry.refresh(cluster)
    found = telemetry.readings(cluster)
    assert set(found) == {("gpu01", 1), ("gpu01", 3)}
    for reading in found.values():
        assert reading.source == "simulated"
        assert 0 <= reading.utilization <= 100
        assert 0 <= reading.memory_used <= reading.memory_total == 32768
    assert telemetry.taken_at == pytest.approx(time.time(), abs=5)


@pytest.mark.parametrize(("name", "load"), [("portal-idle-gpus", 0.0), ("portal-torch-busy", 85.0)])
async def test_a_job_that_says_what_it_does_does_that(name: str, load: float) -> None:
    for number in range(20):
        one = snapshot(job(id=str(number), name=name))
        telemetry = Telemetry(source="simulated")
        await telemetry.refresh(one)
        for reading in telemetry.readings(one).values():
            assert load <= (reading.utilization or 0.0) <= load + 15


async def test_where_only_the_node_says_which_gpus_are_held_they_are_simulated_too() -> None:
    telemetry = Telemetry(source="simulated")
    cluster = snapshot(used=[2])
    await telemetry.refresh(cluster)
    assert set(telemetry.readings(cluster)) == {("gpu01", 2), ("gpu02", 2)}


async def test_the_simulation_is_the_same_at_the_same_moment_and_has_busy_and_idle_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [job(str(n), gpus=1, gpu_indexes={f"gpu{n:03}": (0,)}) for n in range(200)]
    cluster = snapshot(*jobs)
    moments = [1_800_000_000.0, 1_800_000_000.0, 1_800_000_003.0]
    runs = []
    for moment in moments:
        monkeypatch.setattr("time.time", lambda moment=moment: moment)
        telemetry = Telemetry(source="simulated")
        await telemetry.refresh(cluster)
        runs.append({gpu: one.utilization for gpu, one in telemetry.readings(cluster).items()})
    assert runs[0] == runs[1]
    changed = sum(runs[0][gpu] != runs[2][gpu] for gpu in runs[0])
    assert changed < 60, "figures change now and then, not all at once"
    busy = sum(value >= telemetry.busy_percent for value in runs[0].values())
    assert 60 <= busy <= 180


async def test_without_a_source_nothing_is_known() -> None:
    telemetry = Telemetry()
    await telemetry.refresh(snapshot(job()))
    assert telemetry.readings(snapshot(job())) == {} and not telemetry.simulated


# -- what counts as busy, and for how long --------------------------------------------------------


@pytest.mark.parametrize(("value", "busy"), [(None, None), (0, False), (4.9, False), (5, True)])
def test_unknown_is_neither_busy_nor_idle(value: float | None, busy: bool | None) -> None:
    reading = GpuReading(node="gpu01", index=0, at=0, source="dcgm", utilization=value)
    assert Telemetry().busy(reading) is busy


def test_an_old_report_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry, one, now = Telemetry(max_age=60), job(), time.monotonic()
    telemetry.take(one, report({"utilization": 50}, {"utilization": 60}), time.time())
    monkeypatch.setattr("time.monotonic", lambda: now + 61)
    assert telemetry.readings(snapshot(one)) == {}


# -- sessions' own reports ------------------------------------------------------------------------


def taken(one: Job, *gpus: dict) -> dict[int, GpuReading]:
    telemetry = Telemetry()
    telemetry.take(one, report(*gpus), time.time())
    return {index: reading for (_, index), reading in telemetry.readings(snapshot(one)).items()}


def test_a_report_is_shown_and_does_not_count_as_usage() -> None:
    telemetry, one = Telemetry(), job()
    gpus = {"utilization": 50, "memory_used": 100, "memory_total": 200}, {"utilization": 0}
    telemetry.take(one, report(*gpus), time.time())
    found = telemetry.readings(snapshot(one))
    assert [found["gpu01", index].utilization for index in (1, 3)] == [50, 0]
    assert found["gpu01", 1].source == "session" and found["gpu01", 1].memory_total == 200
    assert telemetry.accountable(snapshot(one)) == {}


def test_the_source_stands_before_a_report_unless_it_knows_nothing() -> None:
    telemetry, one, now = Telemetry(), job(), time.time()
    telemetry.take(one, report({"utilization": 50}, {"utilization": 60}), now)
    dcgm = {"node": "gpu01", "at": now, "source": "dcgm"}
    telemetry._readings.put(
        {
            ("gpu01", 1): GpuReading(index=1, utilization=7, **dcgm),
            ("gpu01", 3): GpuReading(index=3, utilization=None, **dcgm),
        }
    )
    found = telemetry.readings(snapshot(one))
    assert (found["gpu01", 1].source, found["gpu01", 3].source) == ("dcgm", "session")
    assert telemetry.accountable(snapshot(one))["gpu01", 3].source == "dcgm"


def test_gpus_that_the_job_numbers_anew_are_slurms_in_order() -> None:
    # Inside the job, NVML shows two GPUs, from 0; their device files have other numbers.
    found = taken(job(), {"minor": 3, "utilization": 33}, {"minor": 1, "utilization": 11})
    assert {index: one.utilization for index, one in found.items()} == {1: 11, 3: 33}
    found = taken(job(), {"minor": 5, "utilization": 55}, {"minor": 0, "utilization": 1})
    assert {index: one.utilization for index, one in found.items()} == {1: 1, 3: 55}
    found = taken(job(), {"utilization": 10}, {"utilization": 20})
    assert {index: one.utilization for index, one in found.items()} == {1: 10, 3: 20}


def test_fewer_gpus_than_the_job_holds_are_joined_only_where_that_is_sure() -> None:
    assert {
        i: one.utilization for i, one in taken(job(), {"minor": 3, "utilization": 9}).items()
    } == {3: 9}
    assert taken(job(), {"minor": 2, "utilization": 9}) == {}, "not a GPU of this job"
    assert taken(job(), {"utilization": 9}) == {}
    assert taken(job(gpu_indexes={}), {"utilization": 9}, {"utilization": 9}) == {}


def test_mig_is_unknown_whatever_the_report_says() -> None:
    found = taken(job(), {"mig": True, "utilization": 0, "memory_used": 5}, {"utilization": None})
    assert [(found[i].utilization, found[i].mig) for i in (1, 3)] == [(None, True), (None, False)]


def test_the_first_node_of_a_job_is_where_its_server_runs() -> None:
    one = job(nodes=NODES, gpus=2, gpu_indexes={"gpu01": (2,), "gpu02": (0,)})
    telemetry = Telemetry()
    telemetry.take(one, report({"utilization": 50}), time.time())
    assert set(telemetry.readings(snapshot(one))) == {("gpu01", 2)}
    with pytest.raises(InvalidRequest, match="2 GPUs, but job 7 has 1"):
        telemetry.take(one, report({}, {}), time.time())


def test_a_report_ends_with_its_job() -> None:
    telemetry, one = Telemetry(), job()
    telemetry.take(one, report({"utilization": 50}, {"utilization": 60}), time.time())
    assert len(telemetry.readings(snapshot(one))) == 2
    assert telemetry.readings(snapshot(job("8"))) == {}, "another job has these GPUs now"
    assert telemetry.readings(snapshot(job(state=JobState.COMPLETED))) == {}
    assert telemetry.readings(snapshot(job(start_time=time.time() + 60))) == {}, "a requeued one"


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([{}, {}, {}], "3 GPUs, but job 7 has 2"),
        ([{"index": 0}, {"index": 0}], "the same 'index'"),
        ([{"minor": 4}, {"minor": 4}], "the same 'minor'"),
        ([{"uuid": "GPU-1"}, {"uuid": "GPU-1"}], "the same 'uuid'"),
        ([{"memory_used": 2, "memory_total": 1}], "more memory than it has"),
    ],
)
def test_a_report_that_cannot_be_is_refused(gpus: list[dict], words: str) -> None:
    telemetry, one = Telemetry(), job()
    with pytest.raises(InvalidRequest, match=words):
        telemetry.take(one, report(*gpus), time.time())
    assert telemetry.readings(snapshot(one)) == {}


def test_a_job_without_gpus_reports_none() -> None:
    with pytest.raises(InvalidRequest, match="1 GPUs, but job 7 has 0"):
        Telemetry().take(job(gpus=0, gpu_indexes={}), report({}), time.time())
    Telemetry().take(job(gpus=0, gpu_indexes={}), report(memory_used=5), time.time())


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.COMPLETED, JobState.UNKNOWN])
def test_a_job_that_does_not_run_and_another_job_are_refused(state: JobState) -> None:
    with pytest.raises(NotAllowed, match="not running"):
        Telemetry().take(job(state=state), report({}), time.time())
    with pytest.raises(NotAllowed, match="Job 8 is not this session's job"):
        Telemetry().take(job(), report({}, job_id="8"), time.time())


@pytest.mark.parametrize(
    "gpu",
    [
        {"utilization": -1},
        {"utilization": 1e9},
        {"utilization": float("nan")},
        {"utilization": float("inf")},
        {"memory_used": -1},
        {"memory_total": 10**9},
        {"memory_used": 1.5},
        {"index": -1},
        {"index": 10**9},
        {"index": "0"},
        {"minor": 256},
        {"uuid": "<script>"},
        {"temperature": 40},
    ],
)
def test_impossible_values_do_not_pass_the_model(gpu: dict) -> None:
    with pytest.raises(ValidationError):
        ReportedGpu.model_validate({"index": 0, **gpu})


@pytest.mark.parametrize(("interval", "gap"), [(None, 90.0), (2.0, 90.0), (120.0, 360.0)])
def test_rare_reports_count_as_measured_too(interval: float | None, gap: float) -> None:
    """Three intervals of a session's reports may pass, as the site has set them."""
    section = {} if interval is None else {"telemetry_interval": interval}
    assert Telemetry(config=Config(PortalSpawner=section)).report_gap == gap
