"""Ends of jobs whose ids a Slurm that lost its state gives out again; words of a killed one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portal.errors import SlurmRefused, SlurmUnavailable
from portal.models.cluster.array import ArrayJob, array_job
from portal.models.cluster.cluster import Job, JobState, Node
from portal.slurm import parse
from portal.slurm.commands.errors import error_of
from portal.slurm.jobs.end import JobEnds

OLD = Job(id="12", user="ada", state=JobState.CANCELLED, end_time=1.0)


class Ends(JobEnds):
    """Answers with ``told``, once ``may`` is set."""

    def __init__(self) -> None:
        super().__init__(runner=None, separator="|", log=None)  # type: ignore[arg-type]
        self.told: list[Job | None] = []
        self.may = asyncio.Event()

    async def _ask(self, job_id: str) -> Job | None:
        told = self.told.pop(0)
        await self.may.wait()
        return told


async def test_an_end_is_remembered() -> None:
    ends = Ends()
    ends.may.set()
    ends.told = [OLD]
    assert [await ends.ended_job("12"), await ends.ended_job("12")] == [OLD, OLD]


async def test_the_next_job_of_that_id_has_not_ended() -> None:
    ends = Ends()
    ends.may.set()
    ends.told = [OLD, None]
    assert await ends.ended_job("12") == OLD
    ends.forget("12")
    assert await ends.ended_job("12") is None


async def test_a_question_about_the_job_before_is_no_answer_about_the_next() -> None:
    ends = Ends()
    ends.told = [OLD, None]
    before = asyncio.ensure_future(ends.ended_job("12"))
    await asyncio.sleep(0)
    ends.forget("12")
    after = asyncio.ensure_future(ends.ended_job("12"))
    await asyncio.sleep(0)
    ends.may.set()
    assert (await before, await after) == (OLD, None)
    ends.told = [None]
    assert await ends.ended_job("12") is None, "the late answer was not remembered"


async def test_a_question_that_failed_is_asked_again() -> None:
    ends = Ends()

    async def failing(job_id: str) -> Any:
        raise SlurmUnavailable("It does not answer.")

    asked, ends._ask = ends._ask, failing  # type: ignore[method-assign]
    with pytest.raises(SlurmUnavailable):
        await ends.ended_job("12")
    ends._ask = asked  # type: ignore[method-assign]
    ends.may.set()
    ends.told = [OLD]
    assert await ends.ended_job("12") == OLD


@pytest.mark.parametrize(
    "words",
    [
        "Transport endpoint is not connected",
        "Connection reset by peer",
        "Connection refused",
        "Software caused connection abort",
        "Broken pipe",
        "slurm_msg_sendto: address:port=127.0.0.1:6817 msg_type=4003: Unexpected missing socket "
        "error",
        "Unexpected missing socket error",
        "Zero Bytes were transmitted or received",
        "Unable to contact slurm controller (connect failure)",
    ],
)
def test_a_slurmctld_that_is_killed_refuses_nothing(words: str) -> None:
    said = f"sbatch: error: Batch job submission failed: {words}"
    assert isinstance(error_of("sbatch", said, 1, "ada"), SlurmUnavailable)


def test_a_refusal_is_one() -> None:
    said = "sbatch: error: Batch job submission failed: Invalid qos specification"
    assert isinstance(error_of("sbatch", said, 1, "ada"), SlurmRefused)


class Array(JobEnds):
    """Ends of an array: slurmctld has its last tasks, accounting answers with ``told``."""

    def __init__(self, live: ArrayJob, *told: Job | None) -> None:
        super().__init__(None, "|", None, lambda job_id: live)  # type: ignore[arg-type]
        self.told = list(told)

    async def _accounting(self, job_id: str) -> Job | None:
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]


def an_array(*states: str) -> ArrayJob:
    return array_job(
        "12", [Job(id=f"12_{n}", state=JobState(state)) for n, state in enumerate(states)]
    )


DRAINED = (
    "NodeName=cpu01 NodeAddr=127.0.0.1 State=IDLE+DRAIN "
    "Reason=Prolog error [root@2026-11-27T17:49:29]\n"
    "NodeName=cpu02 NodeAddr=127.0.0.1 State=MIXED"
)
PROLOG = Job(  # as sacct of 22.05 has it, sacct-prolog
    id="12",
    user="ada",
    state=JobState.CANCELLED,
    reason="CancelledBy:root",
    nodes=("cpu01",),
    start_time=parse.values.timestamp("2026-11-27T17:49:29"),
    end_time=parse.values.timestamp("2026-11-27T17:49:29"),
)


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({}, "cpu01 (Prolog error)"),
        ({"reason": ""}, "cpu01 (Prolog error)"),  # without accounting
        ({"state": JobState.NODE_FAIL, "reason": ""}, "cpu01 (Prolog error)"),
        ({"state": JobState.FAILED, "reason": ""}, "cpu01 (Prolog error)"),
        ({"reason": "CancelledBy:ada"}, ""),  # the owner did it
        ({"reason": "CancelledBy:operator"}, ""),
        ({"nodes": ("cpu02",)}, ""),
        ({"nodes": ()}, ""),
        ({"start_time": 1.0, "end_time": 2.0}, ""),  # the node was drained at another time
        ({"start_time": 1.0}, ""),  # it ran for long, and root ended it
        ({"state": JobState.COMPLETED, "reason": ""}, ""),
    ],
)
async def test_a_job_that_its_node_could_not_begin(changes: dict[str, Any], trouble: str) -> None:
    """slurmd ends it as root and slurmctld drains the node, a moment later."""
    looks = iter(["", DRAINED, DRAINED])

    async def nodes() -> dict[str, Node]:
        return parse.nodes(next(looks) if changes.get("reason", "root") else DRAINED)

    ends = Ends()
    ends._nodes = nodes
    ends.may.set()
    ends.told = [PROLOG.model_copy(update=changes)]
    job = await ends.ended_job("12")
    assert job is not None and job.node_trouble == trouble


async def test_an_array_waits_until_accounting_has_all_tasks() -> None:
    live, whole = an_array("COMPLETED", "FAILED"), an_array("COMPLETED", "COMPLETED", "FAILED")
    alone = Job(id="12", state=JobState.FAILED, exit_code=3)
    early = (alone, an_array("COMPLETED", "RUNNING"), an_array("COMPLETED"))
    assert await Array(live, *early, whole).ended_job("12") == whole


async def test_without_accounting_an_array_is_what_slurmctld_has() -> None:
    live = an_array("COMPLETED", "FAILED")
    assert await Array(live, None).ended_job("12") is live
