"""Jobs from ``squeue -O`` and their GPU indexes from ``scontrol show job -d``.

A job's name and comment are its owner's free text: spaces, ``=``, newlines, any byte. In
``scontrol show job`` such a text can imitate fields and whole jobs. So jobs are read from squeue,
with a field separator that nobody who names a job can know; it is passed to squeue in the
environment (SQUEUE_FORMAT2), which other users cannot read, not on the command line, which they
can.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from ...models.cluster.cluster import Job
from .gres import gpus, tres, tres_gpus, tres_shares
from .values import (
    exit_status,
    hosts,
    is_none,
    job_state,
    mebibytes,
    number,
    seconds,
    text_of,
    timestamp,
)

# The order of squeue's columns; squeue(1) --Format. Free text stands last.
FIELDS = (
    "JobArrayID",
    "State",
    "Reason",
    "UserName",
    "Partition",
    "QOS",
    "Reservation",
    "PriorityLong",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "NumCPUs",
    "exit_code",
    "NodeList",
    "tres-alloc",
    "Account",
    "WorkDir",
    "STDOUT",
    "Comment",
    "Name",
)


_NO_INDEXES: dict[str, tuple[int, ...]] = {}  # shared by all jobs: models are never written to


def new_separator() -> str:
    """Return a separator that cannot be guessed: a control character and 72 random bits."""
    return "\x1f" + secrets.token_urlsafe(9)


def job_format(separator: str) -> str:
    """Return the value of SQUEUE_FORMAT2: every field in full (no width), then the separator.

    The last field is followed by the record's end instead. ``separator`` must not contain a comma
    or a colon, nor begin with a digit.
    """
    fields = ",".join(f"{field}:{separator}" for field in FIELDS[:-1])
    return f"{fields},{FIELDS[-1]}:{_end(separator)}"


def _end(separator: str) -> str:
    return "\x1e" + separator[1:]


def jobs(text: str, separator: str) -> dict[str, Job]:
    """Parse squeue's output into jobs by id, in its order.

    Raises ValueError if the output does not have the form of ``job_format``.
    """
    return {job.id: job for job in jobs_by_record(text, separator).values()}


def jobs_by_record(
    text: str, separator: str, known: Mapping[str, Job] | None = None
) -> dict[str, Job]:
    """Parse jobs as ``jobs`` does, but by squeue's text of each job.

    ``known`` is the last answer: a job whose text has not changed is the same object again, which
    makes a refresh of 10,000 jobs cheap.
    """
    if not text:
        return {}
    records = text.split(_end(separator) + "\n")
    if records.pop():
        raise ValueError("squeue did not print the requested fields")
    known = known or {}
    return {record: known.get(record) or _job(record.split(separator)) for record in records}


def _job(fields: list[str]) -> Job:
    if len(fields) != len(FIELDS):
        raise ValueError("squeue did not print the requested fields")
    (
        id_, state, reason, user, partition, qos, reservation, priority, submit, start, end, limit,
        cpus, status, nodes, allocated, account, work_dir, stdout, comment, name,
    ) = fields  # fmt: skip
    code, signal = exit_status(status)
    count, kind = tres_gpus(allocated)
    parsed = job_state(state)
    # Built without pydantic's checks: this is the hot path, and every value is made right here.
    return Job.trusted(
        id=id_,
        name=text_of(name),
        user=user,
        account=text_of(account),
        partition=partition,
        qos="" if is_none(qos) else qos,
        reservation="" if is_none(reservation) else reservation,
        state=parsed,
        reason="" if is_none(reason) else text_of(reason),
        nodes=hosts(nodes),
        cpus=number(cpus) or 0,
        memory=mebibytes(tres(allocated).get("mem", "")),
        gpus=count,
        gpu_type=kind,
        gpu_indexes=_NO_INDEXES,
        shares=tres_shares(allocated),
        priority=number(priority),
        submit_time=timestamp(submit),
        start_time=timestamp(start),
        end_time=timestamp(end),
        time_limit=seconds(limit),
        exit_code=code if parsed.ended else None,
        exit_signal=signal if parsed.ended else None,
        peak_memory=None,
        comment=text_of(comment),
        stdout=text_of(stdout),
        work_dir=text_of(work_dir),
    )


_RECORD = re.compile(
    r"^JobId=(\d+) (?:ArrayJobId=(\d+) ArrayTaskId=(\S+) |HetJobId=(\d+) HetJobOffset=(\d+) )?",
    re.MULTILINE,
)
_HELD = re.compile(r"Nodes=(\S+) CPU_IDs=\S* Mem=\d+ GRES=(\S*)")


def gpu_indexes(text: str, jobs: Mapping[str, Job]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Parse GPU indexes by job id and node name, from ``scontrol show job -d -o``.

    For display only. A job's free text can imitate this output, so a record is trusted only if it
    is the only one for its job, names that job's own nodes and adds up to its GPUs (all three as
    squeue reported them); the indexes of any other job stay unknown.
    """
    indexes_by_job: dict[str, dict[str, tuple[int, ...]]] = {}
    doubtful: set[str] = set()
    starts = list(_RECORD.finditer(text))
    for place, start in enumerate(starts):
        id_ = start[1]
        if start[2] and start[3].isdigit():
            id_ = f"{start[2]}_{start[3]}"
        elif start[4]:
            id_ = f"{start[4]}+{start[5]}"
        if id_ in indexes_by_job or id_ in doubtful:
            doubtful.add(id_)
            continue
        job = jobs.get(id_)
        if job is None or not job.gpus or not job.nodes or job.state.ended:
            continue
        end = starts[place + 1].start() if place + 1 < len(starts) else len(text)
        held: dict[str, tuple[int, ...]] = {}
        repeated = False
        for nodes, gres in _HELD.findall(text, start.end(), end):
            indexes = [index for entry in gpus(gres) for index in entry.indexes or ()]
            try:
                for node in hosts(nodes):
                    repeated = repeated or node in held
                    held[node] = tuple(indexes)
            except ValueError:
                repeated = True
        total = sum(len(indexes) for indexes in held.values())
        if repeated or set(held) - set(job.nodes) or total != job.gpus:
            doubtful.add(id_)
        else:
            indexes_by_job[id_] = {node: indexes for node, indexes in held.items() if indexes}
    return {id_: held for id_, held in indexes_by_job.items() if id_ not in doubtful}
