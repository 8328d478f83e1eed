"""A real Slurm as sites have it: partitions that refuse, a prolog that fails, a node that saves
power, shares of GPUs, and a job_submit plugin with words of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from small import SmallSlurm
from small_slurm import started

from portal.errors import NotAllowed, SlurmRefused
from portal.launch.estimate import from_slurm, woken
from portal.launch.estimate_words import sentence
from portal.launch.partitions import choose_partition, closed, named_partition, objections_in
from portal.models.cluster.cluster import ClusterSnapshot, JobState, Node
from portal.models.person import Person
from portal.models.session.estimate import Outlook
from portal.models.session.resources import Resources
from portal.sessions.ending import explain
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.commands.start_estimate import test_only as start_of
from portal.slurm.reasons import node_words
from portal.work.run.tasks import waiting_words

# Each refuses a plain session of an hour, at once or by keeping it waiting.
REFUSING = {
    "aaa-devel": "MaxTime=30",
    "aaa-root": "RootOnly=YES DisableRootJobs=YES",
    "aaa-hosts": "AllocNodes=elsewhere",
    "aaa-reservation": "ReqResv=YES",
    "aaa-nodes": "MinNodes=2",
    "aaa-memory": "MaxMemPerNode=100",
    "aaa-cpus": "MaxCPUsPerNode=1",
    "aaa-down": "State=DOWN",
    "aaa-drain": "State=DRAIN",
    "aaa-inactive": "State=INACTIVE",
}
PLAIN = Resources(cpus=2, memory="200M", time="1:00:00")
PLUGIN = """
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.comment == "refuse" then
    slurm.log_user("Unable to contact your supervisor: authentication error, host is down")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""


class SiteSlurm(SmallSlurm):
    """The small Slurm, with what sites add to it."""

    def _write_config(self) -> None:
        super()._write_config()
        home = self.home
        self._script("prolog", f'test -e "{home}/broken-$SLURMD_NODENAME" && exit 1; exit 0')
        self._script("power", "exit 0")
        (home / "job_submit.lua").write_text(PLUGIN)
        conf = (home / "slurm.conf").read_text().replace("GresTypes=gpu", "GresTypes=gpu,shard")
        conf = conf.replace("Gres=gpu:t4:2", "Gres=gpu:t4:2,shard:8")
        if any(Path("/usr/lib").glob("*/slurm*/job_submit_lua.so")):
            conf += "JobSubmitPlugins=lua\n"
        conf += f"""
Prolog={home}/prolog
SuspendProgram={home}/power
ResumeProgram={home}/power
SuspendTime=86400
SuspendTimeout=1
ResumeTimeout=600
"""
        for name, rules in REFUSING.items():
            conf += f"PartitionName={name} Nodes=cpu[01-02] {rules}\n"
        (home / "slurm.conf").write_text(conf)
        gres = home / "gres.conf"
        gres.write_text(f"{gres.read_text()}NodeName=gpu04 Name=shard Count=8\n")

    def _script(self, name: str, text: str) -> None:
        path = self.home / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    with started(SiteSlurm(tmp_path_factory.mktemp("slurm"))) as running:
        yield running


@pytest.fixture
async def cluster(slurm: SmallSlurm) -> AsyncIterator[Cluster]:
    watcher = Cluster(
        runner=SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"]),
        jobs_ttl=0,
        nodes_ttl=0,
        patience=60,
        rpcs_per_second=100.0,
        burst=100,
    )
    yield watcher
    watcher.close()
    slurm.run("scancel", f"--user={slurm.user}")


def batch(slurm: SmallSlurm, *options: str, seconds: int = 60) -> list[str]:
    out = f"--output={slurm.home}/%j.log"
    return ["sbatch", "--no-requeue", out, *options, f"--wrap=sleep {seconds}"]


async def snapshot(cluster: Cluster) -> ClusterSnapshot:
    told = await cluster.snapshot(time.monotonic(), jobs_only=False)
    assert not told.error
    return told


async def node_that(cluster: Cluster, name: str, word: str) -> Node:
    """Return the node once its state has this word."""
    async with asyncio.timeout(90):
        while word not in (node := (await snapshot(cluster)).nodes[name]).words:
            await asyncio.sleep(0.2)
    return node


async def state_of(cluster: Cluster, job_id: str, *states: JobState) -> JobState:
    """Return the job's state once it is one of ``states``."""
    async with asyncio.timeout(60):
        while (job := (await snapshot(cluster)).jobs[job_id]).state not in states:
            await asyncio.sleep(0.1)
    return job.state


async def test_a_plain_launch_runs_whatever_other_partitions_refuse(
    slurm: SmallSlurm, cluster: Cluster
) -> None:
    person = Person(name=slurm.user)
    told = await snapshot(cluster)
    rows = await cluster.associations(slurm.user)
    chosen = choose_partition(PLAIN, person, told, rows)
    assert chosen == "cpu"
    waiting = []
    for name in REFUSING:
        reason = closed(told.partitions[name], person, told, rows)
        assert reason or objections_in(told.partitions[name], PLAIN, told, rows), name
        if reason:
            with pytest.raises(NotAllowed, match="is not available to you: it "):
                named_partition(name, person, told, rows)
        options = ("--cpus-per-task=2", "--mem=200M", "--nodes=1", "--time=60")
        try:
            waiting += [await cluster.submit(batch(slurm, f"--partition={name}", *options))]
        except SlurmRefused:
            continue
    plain = await cluster.submit(batch(slurm, f"--partition={chosen}", *options))
    await state_of(cluster, plain, JobState.RUNNING)
    jobs = (await snapshot(cluster)).jobs
    assert {jobs[id_].state for id_ in waiting} <= {JobState.PENDING}, "the portal was too strict"


async def test_a_prolog_that_fails_is_named(slurm: SmallSlurm, cluster: Cluster) -> None:
    marker = slurm.home / "broken-cpu01"
    marker.touch()
    job_id = await cluster.submit(batch(slurm, "--partition=cpu", "--nodelist=cpu01"))
    await state_of(cluster, job_id, JobState.CANCELLED, JobState.FAILED)
    job = await cluster.ended_job(job_id)
    marker.unlink()
    slurm.run("scontrol", "update", "nodename=cpu01", "state=resume")
    assert job is not None
    ending = explain(job, "", ready=False)
    assert ending.code == "start_failed", ending
    assert "on cpu01 (Prolog error)" in ending.message
    assert "administrator" not in ending.message
    # The node takes jobs again; one that root cancels there is cancelled, and nothing else.
    again = await cluster.submit(batch(slurm, "--partition=cpu", "--nodelist=cpu01"))
    await state_of(cluster, again, JobState.RUNNING)
    slurm.run("scancel", again)
    await state_of(cluster, again, JobState.CANCELLED)
    job = await cluster.ended_job(again)
    assert job is not None and explain(job, "Job runs on cpu01.").code == "cancelled"


async def test_a_point_whose_prolog_failed_names_the_node_and_can_be_released(
    slurm: SmallSlurm, cluster: Cluster
) -> None:
    marker = slurm.home / "broken-cpu01"
    marker.touch()
    array = ("--requeue", "--array=0-1", "--partition=cpu", "--nodelist=cpu01")
    out = f"--output={slurm.home}/%A_%a.log"
    job_id = await cluster.submit(["sbatch", *array, out, "--wrap=sleep 60"])
    await node_that(cluster, "cpu01", "DRAIN")
    async with asyncio.timeout(60):
        while (task := (await cluster.array_tasks(job_id))[0]).priority != 0:
            await asyncio.sleep(0.1)
    marker.unlink()
    words = waiting_words(task, (await snapshot(cluster)).nodes.values())
    assert "its launch failed, and cpu01 (Prolog error) was taken out of service" in words, task
    assert f"'scontrol release {job_id}_0'" in words
    slurm.run("scontrol", "update", "nodename=cpu01", "state=resume")
    slurm.run("scontrol", "release", f"{job_id}_0")
    task = (await cluster.array_tasks(job_id))[0]
    assert task.priority and "release" not in waiting_words(task), "it waits for its time at most"


async def test_shares_of_a_gpu_take_it(slurm: SmallSlurm, cluster: Cluster) -> None:
    options = ("--partition=gpu", "--nodelist=gpu04", "--gres=shard:2")
    job_id = await cluster.submit(batch(slurm, *options))
    await state_of(cluster, job_id, JobState.RUNNING)
    (pool,) = (await snapshot(cluster)).nodes["gpu04"].gpus
    assert (pool.type, pool.count, pool.used) == ("t4", 2, 1)
    assert len(pool.used_indexes or ()) == 1 and pool.shared_indexes == pool.used_indexes
    # A whole GPU beside it: the other one, and then none is left.
    options = ("--partition=gpu", "--nodelist=gpu04", "--gres=gpu:t4:1")
    job_id = await cluster.submit(batch(slurm, *options))
    await state_of(cluster, job_id, JobState.RUNNING)
    (pool,) = (await snapshot(cluster)).nodes["gpu04"].gpus
    assert (pool.used, sorted(pool.used_indexes or ())) == (2, [0, 1])


async def test_a_plugins_refusal_is_no_outage(slurm: SmallSlurm, cluster: Cluster) -> None:
    if "lua" not in (slurm.home / "slurm.conf").read_text():
        pytest.skip("This Slurm has no job_submit/lua.")
    with pytest.raises(SlurmRefused, match=r"^Slurm refused: Unable to contact your supervisor: "):
        await cluster.submit(batch(slurm, "--partition=cpu", "--comment=refuse"))


async def test_a_node_that_saves_power_is_switched_on_when_needed(
    slurm: SmallSlurm, cluster: Cluster
) -> None:
    person = Person(name=slurm.user)
    slurm.run("scontrol", "update", "nodename=cpu[01-02]", "state=power_down_asap")
    for name in ("cpu01", "cpu02"):
        node = await node_that(cluster, name, "POWERED_DOWN")
        assert node.usable and node.asleep
    told = await snapshot(cluster)
    assert told.resume_seconds == 600
    assert "switched on when needed, about 10 min" in node_words(node.state, 600)
    asked = PLAIN.model_copy(update={"partition": "cpu"})
    now = time.time()
    start = await start_of(cluster.runner, asked, slurm.user, "lab", 20)
    of_slurm = from_slurm(start, now)
    assert of_slurm.outlook is Outlook.NOW, "Slurm counts the node as free"
    estimate = woken(of_slurm, asked, told, now)
    assert sentence(estimate, now).startswith("Starts in about 10 min. A node is switched on")
    rows = await cluster.associations(slurm.user)
    assert choose_partition(PLAIN, person, told, rows) == "cpu", "it can be had there"
    await cluster.submit(batch(slurm, "--partition=cpu", "--nodelist=cpu01"))
    node = await node_that(cluster, "cpu01", "POWERING_UP")
    assert node.usable and node_words(node.state).startswith("is being switched on")
