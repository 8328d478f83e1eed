"""Points of a run that lives, as Slurm has their tasks: those that have ended without a report,
that wait again, and that Slurm still holds after their end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from portal.models.cluster.array import array_id, task_numbers
from portal.models.cluster.cluster import Job, JobState, Node
from portal.models.session.run import FINAL, PointState
from portal.slurm import launch_trouble, pending_words, state_words
from portal.work.run.tables.points import PointKeys

_RESUMES = 85  # exit code of a point whose job starts again (deploy/session.sh)
_SETTLES = 20.0  # seconds in which the report of a task that has ended may still be stored
_STARTS = 5.0  # seconds that a point may have reported its start before Slurm's word is older
# Reasons of a task that waits for its turn, as its run says too (squeue(1), "JOB REASON CODES").
_TURN = frozenset({"", "None", "Resources", "Priority", "JobArrayTaskLimit", "Dependency"})
# Holds that the job's owner can release (squeue's words); others need an administrator.
_LAUNCH_FAILED = "launch failed requeued held"
_OWNERS = (_LAUNCH_FAILED, "job requeued in held state", "JobHeldUser")

Tasks = Mapping[int, Job]  # by the number of the point


class PointNews(NamedTuple):
    """Numbers of points of which Slurm knows more than the portal."""

    ended: tuple[int, ...] = ()  # without a report
    again: tuple[int, ...] = ()  # in the queue once more, after they ran
    absent: tuple[int, ...] = ()  # not among the tasks
    cancelled: tuple[int, ...] = ()  # failed, as far as they know


def tasks_by_array(jobs: Iterable[Job]) -> dict[str, dict[int, Job]]:
    """Return the tasks of each array by its id and their numbers, from one pass over all jobs. A
    task's own job counts, and not the one of all that wait."""
    arrays: dict[str, dict[int, Job]] = {}
    for job in jobs:
        if "_" not in job.id:
            continue
        tasks, numbers = arrays.setdefault(array_id(job.id), {}), task_numbers(job.id)
        for number in numbers:
            if len(numbers) == 1 or number not in tasks:
                tasks[number] = job
    return arrays


def point_news(
    tasks: Tasks, keys: Iterable[PointKeys], numbers: Iterable[int], taken_at: float
) -> PointNews:
    """Compare what points have reported with their ``tasks`` at ``taken_at`` (Unix seconds).
    ``numbers``: of the points that this job has."""
    points = {key.number: key for key in keys}
    ended, again, absent, cancelled = [], [], [], []
    for number in numbers:
        key, task = points.get(number), tasks.get(number)
        if task is None:
            if key is None or key.state is PointState.WAITING:
                absent.append(number)
        elif task.state.ended:
            reported = key is not None and key.state in FINAL
            late = (task.end_time or 0.0) < taken_at - _SETTLES or not task.nodes
            if late and not reported and task.exit_code != _RESUMES:
                ended.append(number)
            failed = key is not None and key.state is PointState.FAILED
            if failed and task.state is JobState.CANCELLED:
                cancelled.append(number)
        elif task.state.pending and key is not None and _ran_before(key, taken_at):
            again.append(number)
    return PointNews(tuple(ended), tuple(again), tuple(absent), tuple(cancelled))


def _ran_before(key: PointKeys, taken_at: float) -> bool:
    """Return True if a point's newest report is older than Slurm's word that it waits."""
    if key.state is PointState.RUNNING:
        return key.started_at is not None and key.started_at < taken_at - _STARTS
    return key.state is PointState.FAILED and (key.ended_at or taken_at) < taken_at


def end_of_held(
    tasks: Tasks, keys: Iterable[PointKeys], points: int, before: float
) -> float | None:
    """Return when the last point has ended (Unix seconds), if all ``points`` of a run have reported
    their ends before ``before`` and Slurm holds tasks of it all the same; else None."""
    ends = [key.ended_at or before for key in keys if key.state in FINAL]
    if len(ends) < points or max(ends, default=before) >= before:
        return None
    return max(ends) if any(not task.state.ended for task in tasks.values()) else None


def is_special(task: Job) -> bool:
    """Return True if a task waits for something else than its turn, such as a release. squeue joins
    the reasons of tasks that wait in one line."""
    if not task.state.pending:
        return False
    return any(reason.strip() not in _TURN for reason in task.reason.split(","))


def waiting_words(task: Job, nodes: Iterable[Node] = ()) -> str:
    """Return what a task waits for besides its turn, and who can change that, in sentences; "" for
    nothing. ``nodes``: the cluster's that take no jobs."""
    if not is_special(task):
        return ""
    words = pending_words(task.reason) if task.reason else state_words(task.state)
    if task.reason in _OWNERS:
        words = words.partition(":")[0]
        if task.reason == _LAUNCH_FAILED and (trouble := launch_trouble(task, nodes)):
            words = f"held because its launch failed, and {trouble} was taken out of service"
        words += f". Release it with 'scontrol release {task.id}', or stop the run and run it again"
    return f"{words[:1].upper()}{words[1:]}."
