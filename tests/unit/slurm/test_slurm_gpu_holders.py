"""Which GPUs jobs hold: what follows from the nodes, and what Slurm is asked."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from clusters import NOW, job, node, pool, snapshot

from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Job, JobState
from portal.slurm import SlurmRunner
from portal.slurm.commands.run import Output
from portal.slurm.watch import gpu_holders
from portal.slurm.watch.budget import QueryBudget
from portal.slurm.watch.gpu_holders import GpuHolders

Held = dict[str, tuple[int, ...]]


class Slurm(SlurmRunner):
    """Answers what scontrol would, of what jobs really hold; ``asked`` are the questions: ids, or
    "all"."""

    def __init__(self, **truth: Held) -> None:
        super().__init__()
        self.truth = {id_.removeprefix("j"): held for id_, held in truth.items()}
        self.asked: list[list[str] | str] = []
        self.away = False

    async def run(self, argv: Sequence[str], **more: Any) -> Output:
        if self.away:
            raise SlurmUnavailable("Slurm does not answer.")
        ids = list(self.truth)
        if "show" in argv:
            self.asked.append("all")
        else:
            ids = [line.removeprefix("show job ") for line in more["input"].splitlines()]
            self.asked.append(ids)
        return Output("".join(self.line(id_) for id_ in ids if id_ in self.truth), "", 0)

    def line(self, id_: str) -> str:
        held = " ".join(
            f"  Nodes={name} CPU_IDs=0 Mem=100 GRES=gpu:v100:{len(some)}"
            f"(IDX:{','.join(map(str, some))})"
            for name, some in self.truth[id_].items()
        )
        return f"JobId={id_} JobName=x {held}\n"


@pytest.fixture(autouse=True)
def slurm_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_holders, "_PATIENCE", 60)


def holders_of(slurm: Slurm) -> GpuHolders:
    return GpuHolders(slurm, QueryBudget(1000, 1000, 0), logging.getLogger("test"))


def holding(id_: str, gpus: int, *nodes: str, **more: Any) -> Job:
    """A job as squeue says it: without indexes."""
    return job(id_, gpus=gpus, nodes=nodes or ("gpu01",), **more)


async def filled(
    holders: GpuHolders, told: ClusterSnapshot, in_order: bool = True
) -> dict[str, Held]:
    found = await holders.fill(told, in_order)
    return {id_: one.gpu_indexes for id_, one in found.jobs.items() if one.gpu_indexes}


async def test_the_only_job_of_a_node_holds_what_is_in_use() -> None:
    slurm = Slurm()
    told = snapshot(node("gpu01", pool(4, 1, 3)), holding("7", 2))
    assert await filled(holders_of(slurm), told) == {"7": {"gpu01": (1, 3)}}
    assert slurm.asked == []


async def test_what_is_left_belongs_to_the_one_that_is_not_known() -> None:
    slurm = Slurm()
    holders = holders_of(slurm)
    await filled(holders, snapshot(node("gpu01", pool(4, 1)), holding("7", 1)))
    told = snapshot(node("gpu01", pool(4, 0, 1, 2)), holding("7", 1), holding("8", 2))
    assert await filled(holders, told) == {"7": {"gpu01": (1,)}, "8": {"gpu01": (0, 2)}}
    assert slurm.asked == []


async def test_one_answer_leads_to_the_next() -> None:
    """8 is alone on gpu02; without its part of gpu01, 7 is alone there too."""
    slurm = Slurm()
    told = snapshot(
        node("gpu01", pool(4, 0, 1, 2)),
        node("gpu02", pool(4, 0, 1)),
        node("gpu03", pool(4, 2)),
        holding("7", 4, "gpu01", "gpu03"),
        holding("8", 2, "gpu02"),
    )
    assert await filled(holders_of(slurm), told) == {
        "7": {"gpu01": (0, 1, 2), "gpu03": (2,)},
        "8": {"gpu02": (0, 1)},
    }


async def test_jobs_that_share_a_node_are_asked_for_and_only_they_and_once() -> None:
    slurm = Slurm(j7={"gpu01": (0,)}, j8={"gpu01": (1,)})
    told = snapshot(
        node("gpu01", pool(4, 0, 1)),
        node("gpu02", pool(4, 0)),
        holding("7", 1),
        holding("8", 1),
        holding("9", 1, "gpu02"),
    )
    holders = holders_of(slurm)
    expected = {"7": {"gpu01": (0,)}, "8": {"gpu01": (1,)}, "9": {"gpu02": (0,)}}
    for _ in range(3):
        assert await filled(holders, told) == expected
    assert slurm.asked == [["7", "8"]]


async def test_many_are_asked_for_at_once_and_not_again_soon() -> None:
    truth = {f"j{number}": {"gpu01": (number,)} for number in range(20)}
    slurm = Slurm(**truth)  # type: ignore[arg-type]
    jobs = [holding(str(number), 1) for number in range(20)]
    told = snapshot(node("gpu01", pool(40, *range(20))), *jobs)
    holders = holders_of(slurm)
    assert len(await filled(holders, told)) == 20
    assert slurm.asked == ["all"]
    truth |= {f"j{number}": {"gpu01": (number,)} for number in range(20, 40)}
    slurm.truth = {id_[1:]: held for id_, held in truth.items()}
    jobs += [holding(str(number), 1) for number in range(20, 40)]
    told = snapshot(node("gpu01", pool(40, *range(40))), *jobs)
    assert len(await filled(holders, told)) == 32  # a few at a time
    assert len(await filled(holders, told)) == 40
    assert [len(ids) for ids in slurm.asked[1:]] == [12, 8]


async def test_nodes_that_were_asked_for_before_the_jobs_prove_nothing() -> None:
    """Job 8 ended and 9 began between the two looks: index 0 was 8's."""
    slurm = Slurm(j9={"gpu01": (3,)})
    told = snapshot(node("gpu01", pool(4, 0)), holding("9", 1))
    assert await filled(holders_of(slurm), told, in_order=False) == {"9": {"gpu01": (3,)}}
    assert slurm.asked == [["9"]]


async def test_a_conclusion_beside_a_job_that_had_ended_is_given_up() -> None:
    """8 ended before the look at the nodes, and 9 began: 8 seems to hold what is 7's on gpu01, and
    7 what is 9's on gpu03. That stands until one sees that 8 is gone, and no longer."""
    truth = {"gpu01": (3,), "gpu03": (3,), "gpu05": (3,)}
    slurm = Slurm(j7=truth, j9={"gpu03": (1,)})
    holders = holders_of(slurm)
    nodes = (
        node("gpu01", pool(4, 3)),
        node("gpu03", pool(4, 1, 3)),
        node("gpu05", pool(4, 3)),
    )
    seven = holding("7", 3, *truth)
    early = snapshot(*nodes, seven, holding("8", 1), at=time.time() - 5)
    wrong = {"8": {"gpu01": (3,)}, "7": {"gpu03": (1, 3), "gpu05": (3,)}}
    assert await filled(holders, early) == wrong
    away = early.model_copy(update={"error": "Slurm does not answer."})
    assert await filled(holders, away) == wrong  # the same jobs again confirm nothing
    later = snapshot(*nodes, seven, holding("9", 1, "gpu03"), at=time.time() + 1)
    assert await filled(holders, later) == {"7": truth, "9": {"gpu03": (1,)}}
    assert slurm.asked == [["7", "9"]]


async def test_more_in_use_than_the_jobs_have_proves_nothing() -> None:
    """A job that began after the look at the jobs is on the node already."""
    slurm = Slurm(j7={"gpu01": (1,)})
    told = snapshot(node("gpu01", pool(4, 0, 1)), holding("7", 1))
    assert await filled(holders_of(slurm), told) == {"7": {"gpu01": (1,)}}
    assert slurm.asked == [["7"]]


async def test_a_requeued_job_and_an_id_that_comes_again_are_new() -> None:
    slurm = Slurm()
    holders = holders_of(slurm)
    for _ in range(2):
        await filled(holders, snapshot(node("gpu01", pool(4, 0)), holding("7", 1)))
    later = holding("7", 1, "gpu02", start_time=NOW)
    told = snapshot(node("gpu01", pool(4)), node("gpu02", pool(4, 2)), later)
    assert await filled(holders, told) == {"7": {"gpu02": (2,)}}


async def test_a_job_that_ends_gives_its_nodes_back_one_by_one() -> None:
    slurm = Slurm()
    holders = holders_of(slurm)
    nodes = (node("gpu01", pool(2, 0)), node("gpu02", pool(2, 1)))
    both = {"7": {"gpu01": (0,), "gpu02": (1,)}}
    for _ in range(2):
        told = snapshot(*nodes, holding("7", 2, "gpu01", "gpu02"))
        assert await filled(holders, told) == both
    ending = holding("7", 2, "gpu02", state=JobState.COMPLETING)
    told = snapshot(*nodes, ending, holding("8", 1, "gpu01"))
    assert await filled(holders, told) == {"7": {"gpu02": (1,)}, "8": {"gpu01": (0,)}}


@pytest.mark.parametrize("state", [JobState.CONFIGURING, JobState.SUSPENDED, JobState.UNKNOWN])
async def test_whoever_has_nodes_counts(state: JobState) -> None:
    slurm = Slurm()
    told = snapshot(node("gpu01", pool(4, 0, 1)), holding("7", 1), holding("8", 1, state=state))
    assert await filled(holders_of(slurm), told) == {}
    assert slurm.asked == [["7", "8"]]


async def test_where_slurm_numbers_no_gpus_it_is_not_asked() -> None:
    slurm = Slurm()
    unnumbered = GpuPool(type="gpu", count=4, used=2, used_indexes=None)
    told = snapshot(node("gpu01", unnumbered), holding("7", 1), holding("8", 1))
    assert await filled(holders_of(slurm), told) == {}
    assert slurm.asked == []


async def test_a_job_without_an_answer_is_asked_for_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurm = Slurm()  # knows neither
    told = snapshot(node("gpu01", pool(4, 0, 1)), holding("7", 1), holding("8", 1))
    holders = holders_of(slurm)
    now = time.monotonic()
    for second in range(600):
        monkeypatch.setattr(gpu_holders.time, "monotonic", lambda second=second: now + second)
        assert await filled(holders, told) == {}
    assert 3 <= len(slurm.asked) <= 5


async def test_slurm_away_leaves_what_is_known() -> None:
    slurm = Slurm(j8={"gpu01": (1,)}, j9={"gpu01": (2,)})
    holders = holders_of(slurm)
    await filled(holders, snapshot(node("gpu01", pool(4, 0)), holding("7", 1)))
    slurm.away = True
    jobs = (holding("7", 1), holding("8", 1), holding("9", 1))
    told = snapshot(node("gpu01", pool(4, 0, 1, 2)), *jobs)
    assert await filled(holders, told) == {"7": {"gpu01": (0,)}}
    slurm.away = False
    away = told.model_copy(update={"error": "Slurm does not answer."})
    assert await filled(holders, away) == {"7": {"gpu01": (0,)}}
    assert slurm.asked == []  # no use to ask while it is away


async def test_a_job_that_has_not_changed_is_the_same_object() -> None:
    told = snapshot(node("gpu01", pool(4, 1)), holding("7", 1))
    holders = holders_of(Slurm())
    first = (await holders.fill(told, True)).jobs["7"]
    assert (await holders.fill(told, True)).jobs["7"] is first
    assert told.jobs["7"].gpu_indexes == {}


async def test_never_wrong() -> None:
    """Jobs come and go at random, between the two looks too; Slurm never answers about single jobs.
    What is concluded, and still stands at the next look, is what is true."""
    some = random.Random(7)
    names = [f"gpu{number:02d}" for number in range(8)]
    free = {name: set(range(4)) for name in names}
    truth: dict[str, Held] = {}
    jobs: dict[str, Job] = {}
    holders = holders_of(Slurm())
    concluded = 0

    def change() -> None:
        if jobs and some.random() < 0.5:
            id_ = some.choice(sorted(jobs))
            del jobs[id_]
            for name, held in truth[id_].items():
                free[name].update(held)
            return
        chosen = some.sample(names, some.choice((1, 1, 1, 2, 3)))
        each = some.choice((1, 2, 4))
        if all(len(free[name]) >= each for name in chosen):
            id_ = str(len(truth))
            truth[id_] = {name: tuple(some.sample(sorted(free[name]), each)) for name in chosen}
            for name, held in truth[id_].items():
                free[name].difference_update(held)
            jobs[id_] = holding(id_, each * len(chosen), *chosen, start_time=float(id_))

    for _ in range(2000):
        for _ in range(some.randrange(4)):
            change()
        seen = dict(jobs)
        for _ in range(some.choice((0, 0, 0, 1, 2))):
            change()  # after the look at the jobs, and before the one at the nodes
        nodes = [node(name, pool(4, *(set(range(4)) - free[name]))) for name in names]
        found = await filled(holders, snapshot(*nodes, *seen.values()))
        for id_, held in found.items():
            if id_ not in holders._concluded:  # it stood at a second look
                concluded += 1
                assert {name: set(one) for name, one in held.items()} == {
                    name: set(one) for name, one in truth[id_].items()
                }
    assert concluded > 1000
