"""What Slurm tells late: after an outage, on a busy day, or once accounting has heard of it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from portal.models.cluster.cluster import Job, JobState
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.jobs.end import JobEnds

RECORDED = Path(__file__).parents[2] / "slurm_outputs" / "22.05"


def stand_in(place: Path) -> dict[str, str]:
    """squeue and scontrol that say what Slurm 22.05 said, or nothing while ``away`` exists."""
    scontrol = place / "scontrol"
    scontrol.write_text(
        f"#!/bin/sh\ntest -e {place}/away && {{ echo 'Unable to contact slurm controller' >&2; "
        f"exit 1; }}\nfor what; do :; done\ncat {RECORDED}/$what.txt\n"
    )
    squeue = place / "squeue"
    squeue.write_text("#!/bin/sh\n")
    for script in (scontrol, squeue):
        script.chmod(0o755)
    return {"scontrol": str(scontrol), "squeue": str(squeue)}


async def test_an_outage_that_partitions_met_is_over_with_it(tmp_path: Path) -> None:
    cluster = Cluster(
        runner=SlurmRunner(commands=stand_in(tmp_path)),
        jobs_ttl=0,
        nodes_ttl=0.2,
        partitions_ttl=0.1,
        patience=60,
        rpcs_per_second=100.0,
        burst=100,
    )
    try:
        assert (await cluster.snapshot()).error == ""
        await asyncio.sleep(0.3)
        (tmp_path / "away").touch()
        assert "contact" in (await cluster.snapshot()).error
        (tmp_path / "away").unlink()
        cluster.partitions_ttl = 60
        # A caller is not kept waiting for an answer after an outage: the next one has it.
        async with asyncio.timeout(30):
            while (await cluster.snapshot()).error:
                await asyncio.sleep(0.3)
    finally:
        cluster.close()


async def test_who_would_be_refused_waits_for_a_late_answer(tmp_path: Path) -> None:
    commands = stand_in(tmp_path)
    cluster = Cluster(
        runner=SlurmRunner(commands=commands),
        jobs_ttl=0,
        nodes_ttl=0,
        patience=0.05,
        rpcs_per_second=100.0,
        burst=100,
    )
    try:
        await cluster.snapshot()
        slow = Path(commands["scontrol"])
        slow.write_text(slow.read_text().replace("\n", "\nsleep 1\n", 1))
        assert "has not answered for 0.05 s" in (await cluster.snapshot()).error
        assert (await cluster.snapshot(late=60)).error == ""
        # One that failed is not waited for again.
        (tmp_path / "away").touch()
        assert "contact" in (await cluster.snapshot(late=60)).error
        slow.write_text(slow.read_text().replace("sleep 1", "sleep 60"))
        async with asyncio.timeout(30):
            assert "contact" in (await cluster.snapshot(late=60)).error
    finally:
        cluster.close()


CANCELLED = Job(id="7", user="ada", state=JobState.CANCELLED)
KILLED = Job(id="7", user="ada", state=JobState.FAILED, exit_signal=9, memory=100)


@pytest.mark.parametrize(
    ("over", "told", "late"),
    [(CANCELLED, {"reason": "CancelledBy:0"}, 2), (KILLED, {"peak_memory": 812}, 6)],
    ids=["who cancelled it", "its peak memory"],
)
async def test_why_a_job_ended_is_known_though_accounting_hears_it_late(
    monkeypatch: pytest.MonkeyPatch, over: Job, told: dict[str, Any], late: int
) -> None:
    ends = JobEnds(SlurmRunner(), "|", logging.getLogger("test"))
    answers = [over.model_copy(update={"state": JobState.RUNNING})] * late
    answers.append(over.model_copy(update=told))

    async def controller(job_id: str) -> Job:
        return over

    async def accounting(job_id: str) -> Job:
        return answers.pop(0)

    monkeypatch.setattr(ends, "_controller", controller)
    monkeypatch.setattr(ends, "_accounting", accounting)
    found = await ends.ended_job("7")
    assert found is not None and answers == []
    if over is KILLED:
        assert (found.state, found.peak_memory) == (JobState.OUT_OF_MEMORY, 812)
    else:
        assert found.reason == "CancelledBy:root"
