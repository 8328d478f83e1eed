"""Slurm array as one job: its id in the ids of its tasks, and the state of all of them together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .cluster import Job, JobState

# Ids of tasks (squeue(1), JobArrayID): "123_4", and "123_[5-9%2]" for those that wait.
_TASK = re.compile(r"([0-9]+)_(?:\[([0-9,:-]*)[^\]]*\]|([0-9]+))")
_MOST = 100_000  # tasks of a range; more than Slurm has (slurm.conf(5), MaxArraySize)


class ArrayJob(Job):
    """Array of tasks as one job. ``tasks``: the number of tasks that have ended, by state; complete
    once the array has ended, and accounting knows it."""

    tasks: Mapping[JobState, int] = {}

    @property
    def ended_tasks(self) -> int:
        """Number of tasks that have ended, as far as they are known."""
        return sum(self.tasks.values())


def array_id(job_id: str) -> str:
    """Return "123" for a task's id, such as "123_4" or "123_[5-9%2]"; other ids as they are."""
    match = _TASK.fullmatch(job_id)
    return match[1] if match else job_id


def task_numbers(job_id: str) -> tuple[int, ...]:
    """Return the numbers of the tasks that an id stands for: (5, 6, 7) for "123_[5-7%2]"; none for
    a job that is no task. Slurm cuts long lists; the rest of one is left out."""
    match = _TASK.fullmatch(job_id)
    if match is None:
        return ()
    if match[2] is None:
        return (int(match[3]),)
    numbers: list[int] = []
    for part in filter(None, match[2].split(",")):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if first.isdigit():
            end = int(last) if last.isdigit() else int(first)
            numbers += range(int(first), min(end, int(first) + _MOST) + 1, max(1, int(step or 1)))
    return tuple(numbers)


def whole_job(jobs: Mapping[str, Job], job_id: str) -> Job | None:
    """Return the job of this id; if it is an array, made of its tasks; None if there is none."""
    job = jobs.get(job_id)
    if job is not None or not job_id.isdigit():
        return job
    prefix = f"{job_id}_"
    tasks = [task for id_, task in jobs.items() if id_.startswith(prefix)]
    return array_job(job_id, tasks) if tasks else None


def array_job(job_id: str, tasks: Sequence[Job]) -> ArrayJob:
    """Return an array as one job: it waits until a task runs, runs while any task waits or runs,
    and is over when none is left. Its resources are those of one task, its nodes those of all that
    run, or ran. ``tasks`` must not be empty."""
    state, shown_tasks = _summary(tasks)
    first = shown_tasks[0]
    failed = next((task for task in shown_tasks if task.exit_code or task.exit_signal), first)
    starts = [task.start_time for task in tasks if task.start_time and not task.state.pending]
    ends = [task.end_time for task in tasks if task.end_time and task.state.ended]
    peaks = [task.peak_memory for task in tasks if task.peak_memory is not None]
    own: dict[str, Any] = {
        "id": job_id,
        "state": state,
        "nodes": tuple(dict.fromkeys(node for task in shown_tasks for node in task.nodes)),
        "gpu_indexes": {},
        "start_time": first.start_time if state.pending else min(starts, default=None),
        "end_time": max(ends, default=None) if state.ended else first.end_time,
        "exit_code": failed.exit_code if state.ended else None,
        "exit_signal": failed.exit_signal if state.ended else None,
        "peak_memory": max(peaks, default=None),
        "tasks": _counted(tasks),
    }
    same = {name: getattr(first, name) for name in Job.model_fields if name not in own}
    return ArrayJob.trusted(**same, **own)


def _summary(tasks: Sequence[Job]) -> tuple[JobState, Sequence[Job]]:
    """Return the state of an array, and the tasks that show it."""
    alive = [task for task in tasks if not task.state.ended]
    if not alive:
        return _over(_counted(tasks)), tasks
    placed = [task for task in alive if not task.state.pending]
    if placed:
        states = {task.state for task in alive}
        return (states.pop() if len(states) == 1 else JobState.RUNNING), placed
    # Between two tasks, none may run.
    ran = [task for task in tasks if task.state.ended and task.nodes]
    return (JobState.RUNNING, ran) if ran else (alive[0].state, alive)


def _counted(tasks: Sequence[Job]) -> dict[JobState, int]:
    """Return the number of ended tasks by state. A task's own job counts, and not one of all that
    waited when the array was cancelled."""
    states: dict[int, JobState] = {}
    for task in tasks:
        if task.state.ended:
            numbers = task_numbers(task.id)
            own = len(numbers) == 1
            states |= {n: task.state for n in numbers if own or n not in states}
    return dict(Counter(states.values()))


def _over(counts: Mapping[JobState, int]) -> JobState:
    """Return the state of an array whose tasks have all ended: theirs, if it is the same; else
    CANCELLED if the others have completed; else FAILED."""
    states = set(counts)
    if len(states) == 1:
        return states.pop()
    if states == {JobState.COMPLETED, JobState.CANCELLED}:
        return JobState.CANCELLED
    return JobState.FAILED
