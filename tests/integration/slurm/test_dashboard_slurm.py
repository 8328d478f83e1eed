"""The dashboard on a real Slurm: which GPUs jobs hold, drained nodes, outages, and what it asks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from clusters import GRACE
from fake_watcher import ToldTelemetry
from machine_clock import awake
from small import SmallSlurm
from small_slurm import started
from test_slurm_cluster import requests

from portal.dashboard import Dashboard
from portal.models.cluster.cluster import Job
from portal.models.cluster.gpu import GpuState
from portal.models.person import Person
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.watch import gpu_holders


class MixedSlurm(SmallSlurm):
    """The small Slurm, with two types of GPUs on gpu05 that gres.conf names the other way round."""

    def _write_config(self) -> None:
        super()._write_config()
        for name, old, new in (
            (
                "slurm.conf",
                "RealMemory=64000 Gres=gpu:v100:4 Feature=v100\n",
                "RealMemory=64000 Gres=gpu:v100:2,gpu:t4:2 Feature=v100\n",
            ),
            (
                "gres.conf",
                "NodeName=gpu[01-03,05] Name=gpu Type=v100 File=/dev/tty[0-3]",
                "NodeName=gpu05 Name=gpu Type=t4 File=/dev/tty[0-1]\n"
                "NodeName=gpu05 Name=gpu Type=v100 File=/dev/tty[2-3]\n"
                "NodeName=gpu[01-03] Name=gpu Type=v100 File=/dev/tty[0-3]",
            ),
        ):
            text = (self.home / name).read_text()
            assert old in text
            (self.home / name).write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    with started(MixedSlurm(tmp_path_factory.mktemp("slurm"))) as running:
        yield running


@pytest.fixture(autouse=True)
def slurm_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_holders, "_PATIENCE", 60)


@pytest.fixture
async def dashboard(slurm: SmallSlurm) -> AsyncIterator[Dashboard]:
    one = new_dashboard(slurm)
    yield one
    one.cluster.close()
    slurm.run("scancel", f"--user={slurm.user}")
    for _ in range(100):
        if not slurm.run("squeue", "--noheader", "--all").strip():
            return
        await asyncio.sleep(0.1)


def new_dashboard(slurm: SmallSlurm) -> Dashboard:
    runner = SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"])
    cluster = Cluster(
        runner=runner, rpcs_per_second=100.0, burst=100, patience=60, partitions_ttl=3600
    )
    return Dashboard(cluster=cluster, telemetry=ToldTelemetry())


def submit(slurm: SmallSlurm, tmp_path: Path, *options: str) -> str:
    """A job that writes which devices it got, by node."""
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\nsrun --ntasks-per-node=1 sh -c "
        f"'echo $CUDA_VISIBLE_DEVICES >{tmp_path}/$SLURM_JOB_ID.$SLURMD_NODENAME'\nsleep 300\n"
    )
    return slurm.run(
        "sbatch", "--parsable", "--output=/dev/null", "--time=10", "--mem-per-cpu=100",
        *options, str(script),
    ).strip()  # fmt: skip


def scontrol_indexes(slurm: SmallSlurm, job_id: str) -> dict[str, tuple[int, ...]]:
    """What `scontrol -d show job` says, read by other means than the portal's."""
    text = slurm.run("scontrol", "-d", "show", "job", job_id)
    found = {}
    for nodes, indexes in re.findall(r"Nodes=(\S+) CPU_IDs.*?GRES=gpu\S*\(IDX:([\d,-]+)\)", text):
        numbers: list[int] = []
        for part in indexes.split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
        for node in slurm.run("scontrol", "show", "hostnames", nodes).split():
            found[node] = tuple(numbers)
    return found


async def running(dashboard: Dashboard, *ids: str) -> dict[str, Job]:
    """The jobs as the dashboard has them, once they run and their GPUs are known."""
    for _ in range(100):
        await dashboard.refreshed()
        jobs = dashboard.view.snapshot.jobs
        if all(id_ in jobs and jobs[id_].gpu_indexes for id_ in ids):
            return {id_: jobs[id_] for id_ in ids}
        await asyncio.sleep(0.2)
    raise AssertionError({id_: jobs.get(id_) for id_ in ids})


async def devices(tmp_path: Path, job_id: str, node: str) -> tuple[int, ...]:
    """CUDA_VISIBLE_DEVICES of a job on a node."""
    file = tmp_path / f"{job_id}.{node}"
    for _ in range(100):
        if file.exists() and (text := file.read_text().strip()):
            return tuple(int(part) for part in text.split(","))
        await asyncio.sleep(0.1)
    raise AssertionError(f"{file} is empty")


async def test_jobs_on_a_node_get_the_gpus_that_slurm_gave_them(
    slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path
) -> None:
    shared = [
        submit(slurm, tmp_path, "--nodelist=gpu01", f"--gpus={number}") for number in (1, 2, 1)
    ]
    both = submit(slurm, tmp_path, "--nodelist=gpu02,gpu03", "--nodes=2", "--gpus-per-node=2")
    beside = submit(slurm, tmp_path, "--nodelist=gpu02", "--gpus=2")
    t4 = submit(slurm, tmp_path, "--nodelist=gpu05", "--gpus=t4:1")
    v100 = submit(slurm, tmp_path, "--nodelist=gpu05", "--gpus=v100:1")
    jobs = await running(dashboard, *shared, both, beside, t4, v100)
    for id_, one in jobs.items():
        assert one.gpu_indexes == scontrol_indexes(slurm, id_), id_
        for node, indexes in one.gpu_indexes.items():
            assert await devices(tmp_path, id_, node) == indexes, (id_, node)
    gpus = dashboard.view.gpus
    for id_, one in jobs.items():
        for node, indexes in one.gpu_indexes.items():
            for index in indexes:
                assert gpus[f"{node}/{index}"].job_id == id_
                assert gpus[f"{node}/{index}"].state is GpuState.ALLOCATED
    # Slurm counts through the types of a node; each GPU has the type that its job asked for.
    assert [gpus[f"gpu05/{index}"].type for index in range(4)] == ["v100", "v100", "t4", "t4"]
    (index,) = jobs[t4].gpu_indexes["gpu05"]
    assert gpus[f"gpu05/{index}"].type == "t4"


async def test_array_tasks_and_parts_of_a_heterogeneous_job(
    slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path
) -> None:
    array = submit(slurm, tmp_path, "--array=1-2", "--nodelist=gpu01", "--gpus=1")
    submit(slurm, tmp_path, "--nodelist=gpu01", "--gpus=1")  # two of three are ambiguous
    wrap = ["--output=/dev/null", "--wrap=sleep 300"]
    parts = ["--nodelist=gpu02", "--gpus=1", ":", "--nodelist=gpu03", "--gpus=2", *wrap]
    het = slurm.run("sbatch", "--parsable", *parts).strip()
    ids = [f"{array}_1", f"{array}_2", f"{het}+0", f"{het}+1"]
    jobs = await running(dashboard, *ids)
    for id_ in ids[:2]:
        assert jobs[id_].gpu_indexes == scontrol_indexes(slurm, id_)
    assert jobs[f"{het}+0"].gpu_indexes == {"gpu02": (0,)}
    assert jobs[f"{het}+1"].gpu_indexes == {"gpu03": (0, 1)}


async def test_what_a_refresh_asks(slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path) -> None:
    """Counted by slurmctld itself: jobs and nodes, two requests each, and no more, whoever looks;
    the indexes of jobs that share a node are asked for once."""
    ids = [submit(slurm, tmp_path, "--nodelist=gpu01", "--gpus=1") for _ in range(3)]
    await running(dashboard, *ids)
    for id_ in ids:  # their own requests, which begin and end steps, are not counted
        await devices(tmp_path, id_, "gpu01")
    while any(not one.endswith(".batch") for one in slurm.run("squeue", "-hs", "-o%i").split()):
        await asyncio.sleep(0.2)
    people = [Person(name=f"person{number}") for number in range(50)]
    streams = [dashboard.events(person, None) for person in people]
    slurm.run("sdiag", "--reset")
    for _ in range(5):
        await dashboard.refreshed()
        for person in people:
            assert dashboard.jobs_for(person)
        await asyncio.sleep(0.3)
    assert requests(slurm) <= 5 * 4
    del streams
    fresh = new_dashboard(slurm)  # it meets three jobs on one node: these alone are asked for
    await fresh.refreshed()
    slurm.run("sdiag", "--reset")
    fresh.cluster._holders._known.clear()
    fresh.cluster._holders._asked.clear()
    await fresh.refreshed()
    assert requests(slurm) <= 4 + 1 + 2 * len(ids)
    assert {id_: fresh.view.jobs[id_].gpu_indexes for id_ in ids} == {
        id_: dashboard.view.jobs[id_].gpu_indexes for id_ in ids
    }
    fresh.cluster.close()


async def test_one_job_on_a_node_is_known_without_asking(
    slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path
) -> None:
    ids = [submit(slurm, tmp_path, "--nodelist=gpu01", "--gpus=3")]
    ids += [submit(slurm, tmp_path, "--nodelist=gpu02,gpu03", "--nodes=2", "--gpus-per-node=4")]
    jobs = await running(dashboard, *ids)
    assert jobs[ids[0]].gpu_indexes == scontrol_indexes(slurm, ids[0])
    assert jobs[ids[1]].gpu_indexes == {"gpu02": (0, 1, 2, 3), "gpu03": (0, 1, 2, 3)}
    # Partitions, reservations, and a look at the nodes with each look at the jobs.
    runs = dashboard.cluster.runner.runs
    assert runs["scontrol"] == 2 + runs["squeue"]


async def test_a_name_that_imitates_slurms_answer_takes_no_gpu(
    slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path
) -> None:
    first = submit(slurm, tmp_path, "--nodelist=gpu01", "--gpus=1")
    forged = (
        f"x\nJobId={first} JobName=y   Nodes=gpu01 CPU_IDs=0 Mem=100 GRES=gpu:v100:1(IDX:3) "
        f"\nJobId={int(first) + 1} JobName=z   Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=gpu:v100:1(IDX:3)"
    )
    second = submit(slurm, tmp_path, "--nodelist=gpu01", "--gpus=1", f"--job-name={forged}")
    for _ in range(100):
        await dashboard.refreshed()
        jobs = dashboard.view.snapshot.jobs
        if all(id_ in jobs and jobs[id_].state.running for id_ in (first, second)):
            break
        await asyncio.sleep(0.2)
    await dashboard.refreshed()
    for id_ in (first, second):
        held = dashboard.view.jobs[id_].gpu_indexes
        assert held in ({}, scontrol_indexes(slurm, id_) if id_ == first else {"gpu01": (1,)})
    assert dashboard.view.gpus["gpu01/3"].job_id is None


async def test_a_drained_node_with_its_reason(
    slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path
) -> None:
    id_ = submit(slurm, tmp_path, "--nodelist=gpu02", "--gpus=2")
    await running(dashboard, id_)
    reason = "Xid 79: State=IDLE, see ticket <b>7</b>"
    slurm.run("scontrol", "update", "NodeName=gpu02", "State=DRAIN", f"Reason={reason}")
    try:
        await dashboard.refreshed()
        node = dashboard.view.nodes["gpu02"]
        assert (node.usable, node.reason) == (False, reason)
        assert node.words == "draining: running jobs continue, no new jobs start"
        states = [str(dashboard.view.gpus[f"gpu02/{index}"].state) for index in range(4)]
        assert states == ["allocated", "allocated", "drained", "drained"]
    finally:
        slurm.run("scontrol", "update", "NodeName=gpu02", "State=RESUME")
    for _ in range(100):  # Slurm asks the node itself first
        await dashboard.refreshed()
        if dashboard.view.nodes["gpu02"].usable:
            break
        await asyncio.sleep(0.2)
    assert dashboard.view.nodes["gpu02"].usable
    assert dashboard.view.gpus["gpu02/3"].state is GpuState.FREE


async def test_slurmctld_stopped_and_started(
    slurm: SmallSlurm, dashboard: Dashboard, tmp_path: Path
) -> None:
    id_ = submit(slurm, tmp_path, "--nodelist=gpu01", "--gpus=1")
    await running(dashboard, id_)
    before = dashboard.view
    dashboard.cluster.patience = 3
    slurm.stop_one("slurmctld")
    try:
        began = awake()
        await dashboard.refreshed()
        assert awake() - began < 10
        during = dashboard.view
        assert during.error
        assert during.version == before.version + 1
        assert during.taken_at == before.taken_at
        assert (during.jobs, during.gpus, during.nodes) == (before.jobs, before.gpus, before.nodes)
        (step,) = dashboard.changes_since(GRACE, dashboard.stream, before.version)
        assert step.error == during.error
        assert not (step.gone_jobs or step.gone_gpus or step.gone_nodes or step.jobs)
    finally:
        slurm.start_slurmctld()
    for _ in range(60):
        await dashboard.refreshed()
        if not dashboard.view.error:
            break
        await asyncio.sleep(0.5)
    assert dashboard.view.error == ""
    assert dashboard.view.taken_at > before.taken_at
    assert dashboard.view.jobs[id_].gpu_indexes == before.jobs[id_].gpu_indexes
