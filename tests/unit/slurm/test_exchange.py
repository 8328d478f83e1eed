"""Two processes that watch one cluster: they query Slurm as often as one, and the nodes less often
than the jobs while nothing changes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from portal.errors import SlurmUnavailable
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.commands.run import Output
from portal.slurm.parse.jobs import FIELDS
from portal.slurm.watch import exchange, query_cache
from portal.slurm.watch.exchange import Exchange

NODE = "NodeName=gpu01 NodeAddr=gpu01 CPUTot=4 CPUAlloc=0 RealMemory=100 AllocMem=0 State=IDLE\n"


class Slurm(SlurmRunner):
    """Slurm with one node and ``jobs`` (their columns by id), which counts its queries."""

    def __init__(self, jobs: dict[str, dict[str, str]]) -> None:
        super().__init__()
        self.jobs, self.away, self.takes = jobs, False, 0.01
        self.asked: Counter[str] = Counter()

    async def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_: Any
    ) -> Output:
        self.asked["squeue" if "squeue" in argv else argv[-1]] += 1
        await asyncio.sleep(self.takes)
        if self.away:
            raise SlurmUnavailable("Slurm does not answer.")
        if "squeue" not in argv:
            return Output(NODE if argv[-1] == "node" else "", "", 0)
        separator = (env or {})["SQUEUE_FORMAT2"].split(",")[0].partition(":")[2]
        lines = []
        for id_, columns in self.jobs.items():
            known = {"JobArrayID": id_, "State": "PENDING", "NumCPUs": "1", **columns}
            fields = [known.get(field, "N/A") for field in FIELDS]
            lines.append(separator.join(fields) + "\x1e" + separator[1:] + "\n")
        return Output("".join(lines), "", 0)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(exchange, "_IN_MEMORY", tmp_path)
    monkeypatch.setattr(exchange, "_locks", [])
    return exchange.new_folder()


@pytest.fixture
async def pair(folder: str) -> AsyncIterator[tuple[Cluster, Cluster]]:
    """The Hub's watcher and the service's, each with a Slurm that counts."""
    jobs: dict[str, dict[str, str]] = {"1": {}}
    both = tuple(Cluster(runner=Slurm(jobs), exchange=folder, burst=2) for _ in range(2))
    yield both[0], both[1]
    for cluster in both:
        cluster.close()


def asked(*clusters: Cluster) -> Counter[str]:
    return sum((cluster.runner.asked for cluster in clusters), Counter())


async def test_an_answer_of_the_other_process_is_taken(pair: tuple[Cluster, Cluster]) -> None:
    hub, service = pair
    began = time.monotonic()
    theirs = await service.snapshot()
    ours = await hub.snapshot(began, jobs_only=True)
    assert asked(service)["squeue"] == 1 and not asked(hub)
    assert (ours.jobs, ours.nodes, ours.error) == (theirs.jobs, theirs.nodes, "")
    assert ours.asked_at == pytest.approx(theirs.asked_at, abs=0.001)
    assert ours.taken_at == pytest.approx(theirs.taken_at, abs=0.1)


async def test_one_that_is_too_old_is_not(pair: tuple[Cluster, Cluster]) -> None:
    hub, service = pair
    await service.snapshot()
    moment = time.monotonic()
    made = await hub.snapshot(moment, jobs_only=True)
    assert asked(hub)["squeue"] == 1 and made.asked_at is not None and made.asked_at >= moment


async def test_two_that_follow_the_cluster_query_as_often_as_one(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    for cluster in pair:
        monkeypatch.setattr(cluster._budget, "_rate", 4.0)  # a query of the jobs in half a second
        await cluster.snapshot()
    before, until, looks = asked(*pair)["squeue"], time.monotonic() + 5, Counter[int]()

    async def follow(number: int) -> None:
        while time.monotonic() < until:
            await pair[number].snapshot(time.monotonic(), jobs_only=True)
            looks[number] += 1

    await asyncio.gather(follow(0), follow(1))
    assert min(looks[0], looks[1]) >= 5
    assert asked(*pair)["squeue"] - before <= 5 / 0.5 + 4  # each alone: twice as many


async def test_a_query_that_is_under_way_is_waited_for(pair: tuple[Cluster, Cluster]) -> None:
    hub, service = pair
    await hub.snapshot()
    moment, before = time.monotonic(), asked(hub)["squeue"]
    hub._budget._level = service._budget._level = 2.0  # the turn of both
    service.runner.takes = 0.5
    both = [cluster.snapshot(moment, jobs_only=True) for cluster in (service, hub)]
    theirs, ours = await asyncio.gather(*both)
    assert asked(hub)["squeue"] == before
    assert ours.asked_at == pytest.approx(theirs.asked_at, abs=0.001)


async def test_who_cannot_wait_does_not_wait_for_the_other(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_cache, "_UNDER_WAY", 60)
    hub, service = pair
    await hub.snapshot()
    await service.snapshot()
    service.runner.takes = 60
    slow = asyncio.create_task(service.snapshot(time.monotonic(), jobs_only=True, urgent=True))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(20):
        made = await hub.snapshot(time.monotonic(), jobs_only=True, urgent=True)
    assert made.error == ""
    slow.cancel()


async def test_an_error_is_the_own_and_ends_with_the_others_answer(
    pair: tuple[Cluster, Cluster],
) -> None:
    hub, service = pair
    await hub.snapshot()
    hub.runner.away = True
    made = await hub.snapshot(time.monotonic(), jobs_only=True, urgent=True)
    assert made.error == "Slurm does not answer."
    moment = time.monotonic()
    await service.snapshot(moment, jobs_only=True, urgent=True)
    assert (await hub.snapshot(moment, jobs_only=True)).error == ""


async def test_a_damaged_answer_costs_a_query(pair: tuple[Cluster, Cluster], folder: str) -> None:
    hub, service = pair
    await service.snapshot()
    path = Path(folder) / "jobs"
    late = f"{time.monotonic() + 1000!r}\n".encode()
    odd = f"{time.monotonic()!r}\nodd".encode()
    for content in (b"", b"odd", b"nan\n", late, odd, b"\xff" * 1000):
        path.write_bytes(content)
        before = asked(hub)["squeue"]
        moment = time.monotonic() - 60 if content == odd else time.monotonic()
        made = await hub.snapshot(max(moment, hub._jobs.asked_at + 1e-9), urgent=True)
        assert made.error == "" and "1" in made.jobs
        assert asked(hub)["squeue"] == before + 1


async def test_a_folder_that_is_gone_or_anothers_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    for folder in ("", str(tmp_path / "none"), str(tmp_path / "open")):
        unused = Exchange(folder)
        unused.put("jobs", "text", 1.0)
        assert not unused.active and unused.newer_than("jobs", 0.0) is None
    assert list((tmp_path / "open").iterdir()) == []


def test_a_new_folder_removes_what_is_left_and_no_other(folder: str, tmp_path: Path) -> None:
    left, strange = tmp_path / "portal-slurm-left", tmp_path / "portal-slurm-open"
    left.mkdir(mode=0o700)
    (left / "jobs").write_text("old")
    strange.mkdir(mode=0o755)
    second = exchange.new_folder()
    assert second != folder and Path(second).stat().st_mode & 0o777 == 0o700
    assert {path.name for path in tmp_path.iterdir()} == {
        Path(folder).name,  # this process holds it
        Path(second).name,
        strange.name,
    }
    assert Exchange(second).separator() == Exchange(second).separator()


# -- nodes -----------------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster(runner=Slurm({"1": {}}), rpcs_per_second=1000.0, burst=1000, urgent_interval=0.0)
    yield made
    made.close()


async def look(cluster: Cluster, **more: bool) -> int:
    """Return how often the nodes are queried for a look at the cluster page."""
    before = asked(cluster)["node"]
    await cluster.snapshot(time.monotonic(), jobs_only=False, gpu_indexes=True, **more)
    return asked(cluster)["node"] - before


async def test_nodes_are_queried_when_jobs_start_or_end(cluster: Cluster) -> None:
    jobs = cluster.runner.jobs
    assert (await look(cluster), await look(cluster)) == (1, 0)
    jobs["1"] = {"Priority": "12"}
    jobs["2"] = {}
    assert await look(cluster) == 0, "jobs that wait are on no node"
    runs = {"State": "RUNNING", "NodeList": "gpu01"}
    jobs["2"] = runs
    assert (await look(cluster), await look(cluster)) == (1, 0)
    jobs["2"] = {**runs, "State": "COMPLETING"}
    assert (await look(cluster), await look(cluster)) == (1, 0)
    jobs["2"] = {**runs, "State": "COMPLETED"}
    assert (await look(cluster), await look(cluster)) == (1, 0)
    del jobs["2"]
    assert await look(cluster) == 0


async def test_nodes_are_queried_after_a_while_and_for_whoever_changed_them(
    cluster: Cluster,
) -> None:
    assert (await look(cluster), await look(cluster)) == (1, 0)
    assert await look(cluster, urgent=True) == 1
    cluster.quiet_nodes_ttl = 0.2
    assert await look(cluster) == 0
    await asyncio.sleep(0.2)
    assert (await look(cluster), await look(cluster)) == (1, 0)


async def test_nodes_are_queried_while_the_gpus_of_a_job_are_unknown(cluster: Cluster) -> None:
    cluster.runner.jobs["2"] = {
        "State": "RUNNING",
        "NodeList": "gpu01",
        "tres-alloc": "cpu=1,gres/gpu=1",
    }
    assert (await look(cluster), await look(cluster)) == (1, 1)
