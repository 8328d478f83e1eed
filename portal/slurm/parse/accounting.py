"""Ended jobs from sacct and associations from sacctmgr, both with parsable columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...models.cluster.array import array_id, array_job, task_numbers
from ...models.cluster.cluster import Association, Job, JobState
from .gres import tres, tres_gpus
from .values import (
    exit_status,
    hosts,
    job_state,
    mebibytes,
    names,
    number,
    seconds,
    text_of,
    timestamp,
)

# sacct(1) --format; the job's name is its owner's free text and stands last.
SACCT_FIELDS = (
    "JobID",
    "JobIDRaw",
    "State",
    "ExitCode",
    "User",
    "Account",
    "Partition",
    "QOS",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "AllocCPUS",
    "NodeList",
    "AllocTRES",
    "MaxRSS",
    "JobName",
)

# sacctmgr(1) "LIST/SHOW ASSOCIATION FORMAT OPTIONS".
ASSOCIATION_FIELDS = (
    "User",
    "DefaultAccount",
    "Account",
    "Partition",
    "QOS",
    "DefaultQOS",
    "MaxJobs",
    "MaxSubmit",
    "MaxTRES",
    "MaxWall",
)


def sacct_job(text: str, separator: str, job_id: str) -> Job | None:
    """Return the job ``job_id`` from ``sacct --parsable --delimiter=SEPARATOR``, with its steps.

    Peak memory is the largest of its steps (sacct(1): MaxRSS is the largest task of a step). A
    step that ran out of memory makes a FAILED job OUT_OF_MEMORY: with cgroups Slurm sometimes says
    so of the step only. Of a requeued job the last run counts. An array is one job, of its tasks.
    None if the job is not there.
    """
    tasks, others = _by_task(_rows(text, separator), job_id)
    if not tasks:
        return _with_steps(others, job_id)
    ends = [_with_steps(rows, id_) for id_, rows in tasks.items()]
    jobs = [job for job in ends if job is not None]
    return array_job(job_id, jobs) if jobs else None


def sacct_tasks(text: str, separator: str, job_id: str) -> dict[int, Job]:
    """Return the ended tasks of the array ``job_id`` by number, from the same output."""
    tasks, _ = _by_task(_rows(text, separator), job_id)
    jobs: dict[int, Job] = {}
    for id_, rows in tasks.items():
        job, numbers = _with_steps(rows, id_), task_numbers(id_)
        if job is not None and job.state.ended:
            # A task's own row counts, and not one of all that waited when the array was cancelled.
            own = len(numbers) == 1
            jobs |= {number: job for number in numbers if own or number not in jobs}
    return jobs


def _by_task(
    rows: Iterable[dict[str, str]], job_id: str
) -> tuple[dict[str, list[dict[str, str]]], list[dict[str, str]]]:
    """Return the rows of an array's tasks by their id, and those of the job itself."""
    tasks: dict[str, list[dict[str, str]]] = {}
    own: list[dict[str, str]] = []
    for row in rows:
        id_ = row["JobID"].strip().partition(".")[0]
        if id_ != job_id and array_id(id_) == job_id:
            tasks.setdefault(id_, []).append(row)
        elif job_id in (id_, row["JobIDRaw"].strip().partition(".")[0]):
            own.append(row)
    return tasks, own


def _with_steps(rows: Sequence[dict[str, str]], job_id: str) -> Job | None:
    """Return the job of these rows, its own and its steps'; None without its own."""
    job: Job | None = None
    peak: int | None = None
    for row in rows:
        if "." not in row["JobID"]:
            job, peak = _sacct_row(row, job_id), None
            continue
        memory = mebibytes(row["MaxRSS"])
        if memory is not None:
            peak = max(peak or 0, memory)
        if (
            job is not None
            and job_state(row["State"]) is JobState.OUT_OF_MEMORY
            and job.state is JobState.FAILED
        ):
            job = job.model_copy(update={"state": JobState.OUT_OF_MEMORY})
    return None if job is None else job.model_copy(update={"peak_memory": peak})


def sacct_jobs(text: str, separator: str) -> list[Job]:
    """Parse all jobs of ``sacct --parsable --delimiter=SEPARATOR``, one per run; no steps."""
    ids = ((row["JobID"].strip(), row) for row in _rows(text, separator))
    return [_sacct_row(row, id_) for id_, row in ids if "." not in id_]


def _rows(text: str, separator: str) -> list[dict[str, str]]:
    parts = text.split(separator)
    width = len(SACCT_FIELDS)
    if (len(parts) - 1) % width:
        raise ValueError("sacct did not print the requested fields")
    return [
        dict(zip(SACCT_FIELDS, parts[start : start + width], strict=True))
        for start in range(0, len(parts) - 1, width)
    ]


def _sacct_row(row: dict[str, str], job_id: str) -> Job:
    count, kind = tres_gpus(row["AllocTRES"])
    code, signal = exit_status(row["ExitCode"])
    limit = number(row["TimelimitRaw"])  # minutes
    nodes = row["NodeList"]
    return Job(
        id=job_id,
        name=text_of(row["JobName"]),
        user=row["User"],
        account=text_of(row["Account"]),
        partition=row["Partition"],
        qos=row["QOS"],
        state=job_state(row["State"]),
        reason=_cancelled_by(row["State"]),
        nodes=() if nodes == "None assigned" else hosts(nodes),
        cpus=number(row["AllocCPUS"]) or 0,
        memory=mebibytes(tres(row["AllocTRES"]).get("mem", "")),
        gpus=count,
        gpu_type=kind,
        submit_time=timestamp(row["Submit"]),
        start_time=timestamp(row["Start"]),
        end_time=timestamp(row["End"]),
        time_limit=None if limit is None else limit * 60,
        exit_code=code,
        exit_signal=signal,
    )


def _cancelled_by(state: str) -> str:
    """Return "CancelledBy:6101" for "CANCELLED by 6101"; "" if nobody is named."""
    _, by, uid = state.partition(" by ")
    return f"CancelledBy:{uid.strip()}" if by else ""


def associations(text: str) -> tuple[Association, ...]:
    """Parse associations: ``sacctmgr --parsable2 show user … withassoc`` (ASSOCIATION_FIELDS)."""
    parsed = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len(ASSOCIATION_FIELDS):
            raise ValueError("sacctmgr did not print the requested fields")
        row = dict(zip(ASSOCIATION_FIELDS, parts, strict=True))
        if not row["Account"]:
            continue  # a user without any association
        gpus, _ = tres_gpus(row["MaxTRES"])
        limited = "gres/gpu" in row["MaxTRES"]
        parsed.append(
            Association(
                user=row["User"],
                account=row["Account"],
                partition=row["Partition"],
                qos=names(row["QOS"]),
                default_qos=row["DefaultQOS"],
                is_default_account=row["Account"] == row["DefaultAccount"],
                max_jobs=number(row["MaxJobs"]),
                max_submit_jobs=number(row["MaxSubmit"]),
                max_gpus_per_job=gpus if limited else None,
                max_wall=seconds(row["MaxWall"]),
            )
        )
    return tuple(parsed)
