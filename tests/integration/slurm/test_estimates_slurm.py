"""Slurm's own estimate: the parser on recordings, and sbatch --test-only on a real Slurm."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small import SmallSlurm
from small_slurm import started

from portal.errors import SlurmRefused, SlurmUnavailable
from portal.models.cluster.cluster import JobState
from portal.models.session.resources import Resources
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.commands.errors import error_of
from portal.slurm.commands.start_estimate import NoNodeNow
from portal.slurm.commands.start_estimate import test_only as ask_slurm
from portal.slurm.parse.start_estimate import expected_start

OUTPUTS = Path(__file__).parents[2] / "slurm_outputs"
RECORDED = sorted(path.parent for path in OUTPUTS.glob("*/test-only-now.stderr"))


@pytest.mark.parametrize("place", RECORDED, ids=lambda place: place.name)
class TestRecordings:
    def start(self, place: Path, name: str) -> float | None:
        return expected_start((place / f"test-only-{name}.stderr").read_text())

    def test_times(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now, later, never = (self.start(place, name) for name in ("now", "later", "never"))
        assert now and later and never
        assert 3500 < later - now < 3700
        assert never - now > 300 * 86_400
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
        try:
            local = self.start(place, "now-local")
            assert local and abs(local - now) < 10
        finally:
            monkeypatch.undo()
            time.tzset()

    @pytest.mark.parametrize("name", ["no-node", "gpus", "account", "submit"])
    def test_refusals(self, place: Path, name: str) -> None:
        text = (place / f"test-only-{name}.stderr").read_text()
        assert expected_start(text) is None
        error = error_of("sbatch", text, 1, "ada")
        assert isinstance(error, SlurmRefused)
        assert "allocation failure" not in error.message


@pytest.mark.parametrize(
    "text",
    ["", "sbatch: Job 1 to start at N/A using 1 processors", "Job 1 to start at 5 using 1",
     "sbatch: Job x to start at 5 using 1", "sbatch: Job 1 to start at 99999-99-99T using 1"],
)  # fmt: skip
def test_what_names_no_time(text: str) -> None:
    assert expected_start(text) is None


def test_a_cluster_may_be_named() -> None:
    """26.05, where sbatch was told one (slurm_job_will_run in src/api/allocate.c)."""
    text = "sbatch: Job 7 to start at 1795473326 on cluster big a using 1 processors on nodes n1"
    assert expected_start(text) == 1795473326


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSlurm]:
    with started(SmallSlurm(tmp_path_factory.mktemp("slurm"), accounting=False)) as running:
        yield running


def resources(**more: object) -> Resources:
    usual: dict[str, object] = {"partition": "gpu", "time": "0:10:00", "memory": "100M", "cpus": 1}
    return Resources.model_validate({**usual, **more})


async def test_a_real_slurm(slurm: SmallSlurm) -> None:
    """Now, later, which nodes are there, a refusal, and Slurm away; no job is left of it."""
    runner = SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"])

    async def ask(**more: object) -> float | None:
        return await ask_slurm(runner, resources(**more), slurm.user, "pytorch", 15.0)

    free = await ask(gpus=2, gpu_type="t4")
    assert free is not None and abs(free - time.time()) < 5
    job = slurm.run(
        *("sbatch", "--parsable", "--partition=gpu", "--gres=gpu:t4:2", "--time=60", "--mem=100"),
        *("--output=/dev/null", "--wrap", "sleep 600"),
    ).strip()
    cluster = Cluster(runner=runner, rpcs_per_second=100.0, burst=100)
    for _ in range(100):
        found = (await cluster.snapshot(time.time())).jobs.get(job)
        if found and found.state is JobState.RUNNING:
            break
    taken = await ask(gpus=1, gpu_type="t4")
    assert taken is not None and 3000 < taken - time.time() < 3700
    with pytest.raises(SlurmRefused, match="partition"):
        await ask(partition="nonsense")
    slurm.run("scontrol", "update", "NodeName=gpu04", "State=DRAIN", "Reason=test")
    with pytest.raises(NoNodeNow):
        await ask(gpus=1, gpu_type="t4")
    slurm.run("scontrol", "update", "NodeName=gpu04", "State=RESUME")
    assert re.findall(r"\d+", slurm.run("squeue", "-h", "-o", "%i")) == [job]
    slurm.stop_one("slurmctld")
    with pytest.raises(SlurmUnavailable):
        await ask_slurm(runner, resources(), slurm.user, "pytorch", 1.0)
    cluster.close()
