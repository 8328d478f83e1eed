"""The wait over the next day, from jobs' ends, expected starts and reservations."""

from __future__ import annotations

import time
from typing import Any

import pytest
from clusters import NOW, gpu_node, job, waiting

from portal.launch import estimate_words as words
from portal.launch.forecast import hourly_waits
from portal.models.cluster.cluster import ClusterSnapshot, Job, Partition, Reservation
from portal.models.session.estimate import Basis, Estimate, Outlook
from portal.models.session.resources import Resources

HOUR = 3600.0
TWO = Resources(gpus=2, gpu_type="v100", cpus=1, partition="gpu", time="1:00:00")


def full(*jobs: Job, **more: Any) -> ClusterSnapshot:
    """gpu01 with 4 v100, all in use, and gpu02 with 2 free t4."""
    nodes = [gpu_node("gpu01", "v100", 4, 4, cpus_allocated=8), gpu_node("gpu02", "t4", 2)]
    return ClusterSnapshot(
        taken_at=NOW,
        nodes={node.name: node for node in nodes},
        partitions={"gpu": Partition(name="gpu", nodes=("gpu01", "gpu02"), max_time=86_400)},
        jobs={job.id: job for job in jobs},
        **more,
    )


def later(hours: float) -> Estimate:
    start = NOW + hours * HOUR
    return Estimate(outlook=Outlook.LATER, starts_at=start, basis=Basis.SLURM, made_at=NOW)


def two_gpus(id: str, hours: float, **more: Any) -> Job:
    return job(id, held={"gpu01": (0, 1)}, cpus=4, end_time=NOW + hours * HOUR, **more)


def waits(snapshot: ClusterSnapshot, estimate: Estimate, asked: Resources = TWO) -> list[Any]:
    found = hourly_waits(asked, snapshot, estimate, NOW)
    assert len(found) in (0, 24)
    return [None if wait is None else wait / HOUR for wait in found]


def test_the_wait_shrinks_until_a_running_job_ends() -> None:
    found = waits(full(two_gpus("1", 3), two_gpus("2", 30)), later(3))
    assert found == [3, 2, 1, *[0] * 21]


def test_slurms_own_answer_is_the_wait_for_now() -> None:
    """It knows more than the ends of jobs: here, that a job will end long before its limit."""
    snapshot = full(two_gpus("1", 20), two_gpus("2", 30))
    assert waits(snapshot, later(2))[:4] == [2, 1, 0, 17]


def test_what_waits_takes_its_turn() -> None:
    ahead = waiting("9", gpus=2, gpu_type="v100", start_time=NOW + 6 * HOUR, time_limit=7200)
    found = waits(full(two_gpus("1", 3), two_gpus("2", 30), ahead), later(3))
    assert found == [3, 2, 1, 0, 0, 0, 2, 1, *[0] * 16]
    for other in ({"gpu_type": "t4"}, {"partition": "cpu"}, {"start_time": None}):
        passed = ahead.model_copy(update=other)
        assert waits(full(two_gpus("1", 3), two_gpus("2", 30), passed), later(3))[6] == 0


def test_a_reservation_keeps_its_nodes() -> None:
    class_ = Reservation(
        name="course", start_time=NOW + 6 * HOUR, end_time=NOW + 8 * HOUR, nodes=("gpu01",)
    )
    found = waits(full(two_gpus("1", 3), reservations={"course": class_}), later(3))
    # A session of one hour ends at six; from then on it waits until eight.
    assert found == [3, 2, 1, 0, 0, 0, 2, 1, *[0] * 16]


def test_nothing_is_known_of_jobs_without_an_end() -> None:
    snapshot = full(two_gpus("1", 3).model_copy(update={"end_time": None}))
    assert waits(snapshot, later(1)) == [1, 0, *[None] * 22]
    unknown = Estimate(outlook=Outlook.UNKNOWN, made_at=NOW)
    assert waits(snapshot, unknown) == []
    in_class = TWO.model_copy(update={"reservation": "course"})
    assert waits(snapshot, later(1), in_class) == []


def test_a_session_without_gpus_waits_for_cpus() -> None:
    asked = Resources(cpus=12, partition="gpu", time="1:00:00")
    now = Estimate(outlook=Outlook.NOW, starts_at=NOW + 1, made_at=NOW)
    assert waits(full(two_gpus("1", 3)), now, asked) == [0] * 24


@pytest.mark.parametrize(
    ("hours", "sentence"),
    [
        ((), ""),
        ((0,) * 24, "No wait is expected over the next 24 h."),
        (
            (3, 2, 1, *[0] * 21),
            "The longest wait over the next 24 h is about 3 h. No wait is expected from 13:00.",
        ),
        (
            (1, 0, *[None] * 22),
            "The longest wait over the next 24 h is about 1 h. "
            "No start is known for requests after 12:00.",
        ),
        ((0, *[None] * 23), "No start is known for requests after 11:00."),
    ],
)
def test_in_words(hours: tuple[float | None, ...], sentence: str) -> None:
    now = time.mktime((2026, 3, 3, 10, 0, 0, 0, 1, -1))
    seconds = [None if hour is None else hour * HOUR for hour in hours]
    assert words.day(seconds, now) == sentence
