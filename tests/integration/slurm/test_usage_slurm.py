"""The meter on a real Slurm with accounting: what happened while nobody looked is counted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from small import SmallSlurm
from small_slurm import started

from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import Job, JobState
from portal.sessions.meter import UsageMeter
from portal.slurm import Cluster, SlurmRunner
from portal.store import Store

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    with started(SmallSlurm(tmp_path_factory.mktemp("slurm"))) as running:
        yield running


@pytest.fixture
async def cluster(slurm: SmallSlurm) -> AsyncIterator[Cluster]:
    runner = SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"])
    one = Cluster(runner=runner, rpcs_per_second=100.0, burst=100)
    yield one
    one.close()


def submit(slurm: SmallSlurm, seconds: int, *options: str) -> str:
    argv = ["--parsable", "--partition=gpu", "--output=/dev/null", *options]
    return slurm.run("sbatch", *argv, "--wrap", f"sleep {seconds}").strip()


async def in_state(slurm: SmallSlurm, job_id: str, state: str) -> None:
    for _ in range(600):
        said = slurm.run("squeue", "--noheader", "--format=%T", f"--jobs={job_id}")
        if said.strip() == state:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"job {job_id} is {said}")


async def recorded(cluster: Cluster, *wanted: tuple[str, JobState]) -> dict[str, list[Job]]:
    """Ended jobs by id, once accounting names all of ``wanted``."""
    for _ in range(100):
        found: dict[str, list[Job]] = {}
        for job in await cluster.ended_since(600) or ():
            found.setdefault(job.id, []).append(job)
        if all(state in [job.state for job in found.get(id_, ())] for id_, state in wanted):
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"accounting names {found}")


async def held(store: Store) -> dict[str, float]:
    """GPU-seconds by job id."""
    keys = [key for key in await store.usage.accounted_until() if key[0]]
    assert not keys, "open jobs"
    now = time.time()
    rows = await store.usage.totals(by="user", period="month", start=now - 86_400, end=now)
    return {row.key: row.held_hours * 3600 for row in rows}


async def test_ended_jobs_of_the_last_seconds(slurm: SmallSlurm, cluster: Cluster) -> None:
    done = submit(slurm, 1, "--gpus=2")
    requeued = submit(slurm, 60, "--gpus=1", "--requeue")
    living = submit(slurm, 60)
    await in_state(slurm, requeued, "RUNNING")
    await asyncio.sleep(2)  # its second run is submitted in another second
    slurm.run("scontrol", "requeue", requeued)
    await in_state(slurm, requeued, "PENDING")  # while its first run still ends, a scancel is lost
    slurm.run("scancel", requeued)
    found = await recorded(
        cluster,
        (done, JobState.COMPLETED),
        (requeued, JobState.REQUEUED),
        (requeued, JobState.CANCELLED),
    )
    slurm.run("scancel", living)
    assert living not in found
    (job,) = found[done]
    assert (job.user, job.gpus) == (slurm.user, 2)
    ran = slurm.run("sacct", "-n", "-P", "-X", f"--jobs={done}", "--format=ElapsedRaw")
    assert job.start_time and job.end_time
    assert 1 <= job.end_time - job.start_time == int(ran)
    runs = {job.state: job for job in found[requeued]}
    first = runs[JobState.REQUEUED]
    assert first.gpus == 1 and first.submit_time != runs[JobState.CANCELLED].submit_time
    await asyncio.sleep(2)
    assert done not in [job.id for job in await cluster.ended_since(1) or ()]


async def test_accounting_that_is_down_is_an_error(slurm: SmallSlurm, tmp_path: Path) -> None:
    text = Path(slurm.env["SLURM_CONF"]).read_text()
    lines = [line for line in text.splitlines() if "AccountingStorage" not in line]
    (tmp_path / "slurm.conf").write_text("\n".join(lines) + "\n")
    none = Cluster(runner=SlurmRunner(slurm_conf=str(tmp_path / "slurm.conf")))
    assert await none.ended_since(60) is None  # this site keeps none: that is no error
    none.close()
    away = [
        "AccountingStoragePort=9" if line.startswith("AccountingStoragePort") else line
        for line in text.splitlines()
    ]
    (tmp_path / "away").mkdir()
    (tmp_path / "away/slurm.conf").write_text("\n".join(away) + "\n")
    down = Cluster(runner=SlurmRunner(slurm_conf=str(tmp_path / "away/slurm.conf")))
    with pytest.raises(SlurmUnavailable):
        await down.ended_since(60)
    down.close()


async def test_what_jobs_held_while_the_service_was_down(
    slurm: SmallSlurm, cluster: Cluster, store: Store
) -> None:
    log = logging.getLogger("test-usage")

    async def look(meter: UsageMeter) -> None:
        snapshot = await cluster.snapshot(time.time(), jobs_only=False, gpu_indexes=True)
        await meter.see(snapshot, {}, lambda one: None, {}, time.time())
        await meter.settle()

    long = submit(slurm, 6, "--gpus=2")
    first = UsageMeter(store, log, cluster.ended_since)
    for _ in range(3):
        await look(first)
        await asyncio.sleep(0.5)
    await first.close(time.time())
    short = submit(slurm, 1, "--gpus=1")
    await recorded(cluster, (long, JobState.COMPLETED), (short, JobState.COMPLETED))
    again = UsageMeter(store, log, cluster.ended_since)
    for _ in range(3):
        await look(again)
    await again.close(time.time())
    jobs = {job.id: job for job in await cluster.ended_since(600) or ()}
    expected = sum(
        job.gpus * ((job.end_time or 0) - (job.start_time or 0))
        for job in (jobs[long], jobs[short])
    )
    assert expected >= 2 * 6 + 1
    assert await held(store) == {slurm.user: pytest.approx(expected, abs=0.01)}
