"""Shards, MPS and MIG slices on a real Slurm: as it reports them, and as it takes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from small import SmallSlurm
from small_slurm import started

from portal.launch.availability import GpuSupply, availability
from portal.launch.fields import sbatch_pairs
from portal.models.cluster.cluster import ClusterSnapshot, JobState
from portal.models.session.resources import Resources
from portal.slurm import Cluster, SlurmRunner

TRACKED = "AccountingStorageTRES=gres/gpu"
SLICE = "a100_1g.10gb"


class Parts(SmallSlurm):
    """A small Slurm with shards on gpu04, MPS on gpu03, and MIG slices on gpu05. ``tracked``: it
    accounts for shares."""

    tracked = True

    def _write_config(self) -> None:
        super()._write_config()
        path = self.home / "slurm.conf"
        conf = path.read_text().replace("GresTypes=gpu", "GresTypes=gpu,shard,mps")
        conf = conf.replace("Gres=gpu:t4:2", "Gres=gpu:t4:2,shard:8")
        first, gpu05, rest = conf.partition("NodeName=gpu05")
        conf = first + gpu05 + rest.replace("Gres=gpu:v100:4", f"Gres=gpu:{SLICE}:4", 1)
        node = "CPUs=16 RealMemory=64000 Gres=gpu:v100:4,mps:400 Feature=v100,nvlink\n"
        port = f"{self.ports['gpu01']},{self.ports['gpu02']},{self.ports['gpu03']}"
        conf = conf.replace("NodeName=gpu[01-03]", "NodeName=gpu[01-02]")
        conf = conf.replace(port, port.rpartition(",")[0])
        here = "NodeHostname=localhost NodeAddr=127.0.0.1"
        conf += f"NodeName=gpu03 {here} Port={self.ports['gpu03']} {node}"
        path.write_text(conf.replace(TRACKED, f"{TRACKED},gres/shard,gres/mps"))
        (self.home / "gres.conf").write_text(
            "AutoDetect=off\n"
            "NodeName=gpu[01-03] Name=gpu Type=v100 File=/dev/tty[0-3] Flags=nvidia_gpu_env\n"
            + "".join(f"NodeName=gpu03 Name=mps Count=100 File=/dev/tty{n}\n" for n in range(4))
            + "NodeName=gpu04 Name=gpu Type=t4 File=/dev/tty[0-1] Flags=nvidia_gpu_env\n"
            "NodeName=gpu04 Name=shard Count=8\n"
            f"NodeName=gpu05 Name=gpu Type={SLICE} File=/dev/tty[0-3]\n"
        )


class Untracked(Parts):
    """Like Parts, without accounting."""

    tracked = False


@pytest.fixture(scope="module", params=[Parts, Untracked])
def slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    place = tmp_path_factory.mktemp("slurm")
    with started(request.param(place, accounting=request.param.tracked)) as running:
        yield running


@pytest.fixture
async def cluster(slurm: Parts) -> AsyncIterator[Cluster]:
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
    async with asyncio.timeout(60):
        while slurm.run("squeue", "-h"):
            await asyncio.sleep(0.1)


async def snapshot(cluster: Cluster) -> ClusterSnapshot:
    told = await cluster.snapshot(time.monotonic(), jobs_only=False)
    assert not told.error
    return told


async def supply(cluster: Cluster) -> dict[str, GpuSupply]:
    return availability(await snapshot(cluster), ["gpu"]).gpus


async def launch(slurm: Parts, cluster: Cluster, gpu_type: str, number: int) -> str:
    """Submit what the portal would for such a choice; return the job's id."""
    chosen = Resources(gpus=number, gpu_type=gpu_type, memory="100M", partition="gpu", cpus=1)
    out = f"--output={slurm.home}/%j.log"
    script = "--wrap=env; echo END=1; sleep 60"
    job_id = await cluster.submit(["sbatch", "--no-requeue", out, *sbatch_pairs(chosen), script])
    async with asyncio.timeout(60):
        while (await snapshot(cluster)).jobs[job_id].state is not JobState.RUNNING:
            await asyncio.sleep(0.1)
    return job_id


async def seen_by(slurm: Parts, job_id: str) -> dict[str, str]:
    """Return the environment of a running job."""
    log = slurm.home / f"{job_id}.log"
    async with asyncio.timeout(60):
        while not log.exists() or "\nEND=1\n" not in log.read_text():
            await asyncio.sleep(0.1)
    return dict(line.split("=", 1) for line in log.read_text().splitlines() if "=" in line)


async def test_parts_are_types_of_their_own(slurm: Parts, cluster: Cluster) -> None:
    gpus = await supply(cluster)
    assert {name: (gpu.free, gpu.total, gpu.per_node, gpu.each) for name, gpu in gpus.items()} == {
        "v100": (12, 12, 4, 0),
        "t4": (2, 2, 2, 0),
        SLICE: (4, 4, 4, 0),
        "shard.t4": (8, 8, 4, 4),
        "mps.v100": (16, 16, 4, 4),
    }


async def test_shards_are_counted(slurm: Parts, cluster: Cluster) -> None:
    job_id = await launch(slurm, cluster, "shard.t4", 3)
    gpus = await supply(cluster)
    # Slurm 22.05 does not count them, and without accounting nothing else does.
    exact = slurm.tracked or not (await snapshot(cluster)).nodes["gpu04"].shares[0].uncounted
    assert gpus["shard.t4"].free == (5 if exact else 4)
    assert gpus["t4"].free == 1 and gpus["shard.t4"].total == 8
    if slurm.tracked:
        assert (await snapshot(cluster)).jobs[job_id].shares == {"shard": 3}
    assert (await seen_by(slurm, job_id))["SLURM_SHARDS_ON_NODE"] == "3"
    # A whole one takes the other GPU, and its shards.
    await launch(slurm, cluster, "t4", 1)
    gpus = await supply(cluster)
    assert gpus["t4"].free == 0 and gpus["shard.t4"].free == (1 if exact else 0)


async def test_quarters_by_mps(slurm: Parts, cluster: Cluster) -> None:
    job_id = await launch(slurm, cluster, "mps.v100", 2)
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in await seen_by(slurm, job_id)
    asked = slurm.run("squeue", "-h", f"--jobs={job_id}", "-O", "tres-per-node:60")
    assert asked.strip().replace("/", ":") == "gres:mps:v100:50"  # of a GPU's 100
    free = (await supply(cluster))["mps.v100"].free
    uncounted = (await snapshot(cluster)).nodes["gpu03"].shares[0].uncounted
    assert free == (12 if uncounted else 14)
    assert not (slurm.tracked and uncounted)


async def test_a_slice_is_a_gpu(slurm: Parts, cluster: Cluster) -> None:
    job_id = await launch(slurm, cluster, SLICE, 2)
    gpus = await supply(cluster)
    assert (gpus[SLICE].free, gpus["v100"].free) == (2, 12)
    job = (await snapshot(cluster)).jobs[job_id]
    assert job.nodes == ("gpu05",) and not job.shares
