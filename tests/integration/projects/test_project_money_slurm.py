"""Limits of an account on GPU time, on a real Slurm: what is read, and who holds the second of two
jobs that are submitted at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small import SmallSlurm
from small_slurm import started
from test_projects_api import Site, running

from portal.errors import SlurmRefused
from portal.models.cluster.cluster import JobState
from portal.projects.space import ProjectSpace
from portal.slurm import Cluster, SlurmRunner

pytestmark = pytest.mark.slurm


class SafeSlurm(SmallSlurm):
    """Slurm that starts a job only if it can end within the limits of its account."""

    def _write_config(self) -> None:
        super()._write_config()
        conf = self.home / "slurm.conf"
        before = "AccountingStorageEnforce=associations,limits,qos"
        text = conf.read_text()
        assert before in text
        conf.write_text(text.replace(before, f"{before},safe"))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    """Slurm with the accounts science and, below it, teaching, which may use an hour of one GPU."""
    with started(SafeSlurm(tmp_path_factory.mktemp("slurm"))) as running_one:
        add = ("sacctmgr", "-i", "add")
        running_one.run(*add, "account", "science", "GrpTRESMins=cpu=60000")
        running_one.run(*add, "account", "teaching", "parent=science", "GrpTRESMins=gres/gpu=60")
        running_one.run(*add, "user", running_one.user, "account=teaching")
        yield running_one


@pytest.fixture
async def cluster(slurm: SmallSlurm) -> AsyncIterator[Cluster]:
    runner = SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"])
    one = Cluster(runner=runner, rpcs_per_second=100.0, burst=100)
    yield one
    one.close()


@pytest.fixture
async def site(tmp_path: Path, cluster: Cluster) -> AsyncIterator[Site]:
    async with running(tmp_path) as site:
        await site.approved()
        site.parts.cluster.limits = SimpleNamespace(of_account=cluster.account_limits)
        yield site


async def submit(cluster: Cluster, minutes: int, *options: str) -> str:
    argv = ["sbatch", "--account=teaching", "--partition=gpu", "--output=/dev/null"]
    return await cluster.submit([*argv, f"--time={minutes}", *options, "--wrap=sleep 600"])


async def states(cluster: Cluster, ids: list[str], wanted: set[str]) -> Any:
    """Return the snapshot in which these jobs are ``wanted``: RUNNING, or a reason to wait."""
    for _ in range(150):
        snapshot = await cluster.snapshot()
        jobs = [snapshot.jobs[id_] for id_ in ids if id_ in snapshot.jobs]
        found = {job.reason if job.state is JobState.PENDING else str(job.state) for job in jobs}
        if found == wanted:
            return snapshot
        await asyncio.sleep(0.2)
    raise AssertionError(found)


async def test_two_jobs_at_the_end_of_the_limit(
    slurm: SmallSlurm, cluster: Cluster, site: Site
) -> None:
    told = await site.done("rita", "GET", "projects/proteins/money")
    assert [(one["account"], one["tres"], one["limit"]) for one in told["slurm"]] == [
        ("teaching", "gres/gpu", 1),
        ("science", "cpu", 1000),
    ]
    assert told["enforced"] is True and told["half_life"] == 7 * 86400 and told["problem"] == ""
    assert told["slurm"][0]["used"] == 0
    # Each would end within the hour, both do not: neither is refused, one starts.
    ids = [*await asyncio.gather(*(submit(cluster, 40, "--gpus=1") for _ in range(2)))]
    snapshot = await states(cluster, ids, {"RUNNING", "AssocGrpGRESMinutes"})
    for person, id_ in zip(("mike", "olga"), ids, strict=True):
        await site.session(person, job_id=id_)
    site.parts.dashboard.view = SimpleNamespace(snapshot=snapshot)
    work = (await site.done("rita", "GET", "projects/proteins"))["work"]
    (waits,) = [each["waits"] for each in work if each["waits"]]
    assert "GPU time" in waits and "project 'Proteins'" in waits and "ask an owner" in waits
    # Its owner asks for less, as the words say.
    shorter = await submit(cluster, 15, "--gpus=1")
    await states(cluster, [shorter], {"RUNNING"})
    for id_ in (*ids, shorter):
        await cluster.cancel(id_)


async def test_a_refusal_names_a_policy(slurm: SmallSlurm, cluster: Cluster) -> None:
    slurm.run("sacctmgr", "-i", "modify", "account", "teaching", "set", "GrpSubmitJobs=0")
    try:
        with pytest.raises(SlurmRefused) as refused:
            await submit(cluster, 1)
    finally:
        slurm.run("sacctmgr", "-i", "modify", "account", "teaching", "set", "GrpSubmitJobs=-1")
    assert ProjectSpace(name="proteins", title="Proteins").way_out(refused.value.message)


async def test_use_is_counted_and_a_used_up_account_starts_nothing(
    slurm: SmallSlurm, cluster: Cluster, site: Site
) -> None:
    running_one = await submit(cluster, 2, "--nodes=3", "--gpus-per-node=4")
    await states(cluster, [running_one], {"RUNNING"})
    await asyncio.sleep(6)  # of 12 GPUs: more than a minute
    await cluster.cancel(running_one)
    for _ in range(100):
        answer = await cluster.account_limits("teaching")
        assert answer.last is not None
        (gpus,) = [limit for limit in answer.last.limits if limit.tres == "gres/gpu"]
        if gpus.used:
            break
        answer.invalidate()
        await asyncio.sleep(0.2)
    assert 1 <= gpus.used <= 5
    slurm.run(
        *("sacctmgr", "-i", "modify", "account", "teaching", "set"),
        f"GrpTRESMins=gres/gpu={gpus.used}",
    )
    waiting = await submit(cluster, 1, "--gpus=1")
    await states(cluster, [waiting], {"AssocGrpGRESMinutes"})
    (await cluster.account_limits("teaching")).invalidate()
    told = await site.done("rita", "GET", "projects/proteins/money")
    use = told["slurm"][0]
    assert use["used"] >= use["limit"] and told["first"] == "slurm"
    await cluster.cancel(waiting)


async def test_an_account_that_is_not_there(cluster: Cluster, site: Site) -> None:
    with pytest.raises(Exception, match="does not show the portal the account 'nothing'"):
        await cluster.account_limits("nothing")
