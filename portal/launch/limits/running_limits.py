"""Limits on what may run at one time: MaxJobs, GrpTRES, MaxTRESPerUser and the like.

``sbatch --test-only`` does not check them (portal/slurm/commands/start_estimate.py): a person at a
limit would be told "now" and then wait. Pure: a snapshot in, a reason and a time out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...models.cluster.cluster import Association, ClusterSnapshot, Job
from ...models.session.resources import Resources
from ..waiting import queue_of
from .limits import asked_tres, first_limit, tres_words
from .qos import charged, effective_qos, limiting


class BlockingLimit(NamedTuple):
    """Limit that holds a job back. ``until``: time at which enough of what runs has to end (Unix
    seconds); None: nobody can say."""

    reason: str
    until: float | None


def held_back(
    resources: Resources,
    user: str,
    snapshot: ClusterSnapshot,
    associations: Sequence[Association] | None,
) -> BlockingLimit | None:
    """Return the limit that would keep a job of ``user`` waiting now, although nodes are free;
    None if none is known."""
    if not associations:
        return None
    rows = charged(resources.account, resources.partition, associations)
    limits = [
        *_max_jobs(rows[:1], user, snapshot),
        *_tres_limits(resources, rows[:1], user, snapshot, associations),
    ]
    if limits:
        return max(limits, key=lambda limit: float("inf") if limit.until is None else limit.until)
    return _waits_already(resources, rows, user, snapshot, associations)


def _max_jobs(
    rows: Sequence[Association], user: str, snapshot: ClusterSnapshot
) -> list[BlockingLimit]:
    reached = []
    for row in rows:
        if row.max_jobs is None:
            continue
        own = (user, row.account)
        jobs = [job for job in queue_of(snapshot).running if (job.user, job.account) == own]
        if len(jobs) >= row.max_jobs:
            most = f"{row.max_jobs} job{'' if row.max_jobs == 1 else 's'}"
            ends = jobs[len(jobs) - row.max_jobs].end_time if row.max_jobs else None
            reached.append(
                BlockingLimit(
                    f"Your account '{row.account}' lets you run {most} at the same time.", ends
                )
            )
    return reached


def _tres_limits(
    resources: Resources,
    rows: Sequence[Association],
    user: str,
    snapshot: ClusterSnapshot,
    associations: Sequence[Association],
) -> list[BlockingLimit]:
    name_of_qos = effective_qos(resources.qos, resources.account, resources.partition, associations)
    sources = [
        (source.name, source.max_tres)
        for source in limiting(snapshot, name_of_qos, resources.partition)
    ]
    partition = snapshot.partitions.get(resources.partition or "")
    account = rows[0].account if rows else ""
    reached = []
    for name, amount in asked_tres(resources).items():
        for whose in ("user", "account", "group"):
            limit = first_limit(sources, whose, name)
            if limit is None:
                continue
            qos, most = limit

            def counts(job: Job, qos: str = qos, whose: str = whose) -> bool:
                # A partition's own QOS counts every job in it, whatever the job's QOS is.
                own = partition is not None and partition.qos == qos
                under_qos = job.partition == resources.partition if own else job.qos == qos
                owner_matches = {"user": job.user == user, "account": job.account == account}
                return under_qos and owner_matches.get(whose, True)

            used = [(job, _amount(job, name)) for job in queue_of(snapshot).running if counts(job)]
            until = _fits_at(used, most - amount * resources.nodes)
            if until != 0:
                who = {"user": "you", "account": f"the account '{account}'"}.get(whose, "everyone")
                reason = (
                    f"The QOS '{qos}' lets {who} together use {tres_words(name, most)} at the "
                    "same time."
                ).replace("you together", "you")
                reached.append(BlockingLimit(reason, until))
    return reached


def _amount(job: Job, name: str) -> int:
    """Return what a job holds of a TRES; memory in MiB."""
    if name == "cpu":
        return job.cpus
    if name == "mem":
        return job.memory or 0
    kind = name.partition(":")[2]
    return job.gpus if not kind or job.gpu_type == kind else 0


def _fits_at(used: Sequence[tuple[Job, int]], room: int) -> float | None:
    """Return 0 if there is room, else the time at which enough has ended; None if unknown."""
    over = sum(amount for _, amount in used) - room
    if over <= 0:
        return 0
    for job, amount in used:
        over -= amount
        if over <= 0:
            return job.end_time
    return None


def _waits_already(
    resources: Resources,
    rows: Sequence[Association],
    user: str,
    snapshot: ClusterSnapshot,
    associations: Sequence[Association],
) -> BlockingLimit | None:
    """Return a limit if Slurm holds back a job of this person for one that is not known here."""
    account = rows[0].account if rows else ""
    qos = effective_qos(resources.qos, resources.account, resources.partition, associations)
    for job in queue_of(snapshot).limited.get(user, ()):
        about_gpus = "GRES" in job.reason.upper()
        if about_gpus and not resources.gpus:
            continue
        if (job.reason.startswith("Assoc") and job.account == account) or (
            job.reason.startswith("QOS") and job.qos == qos
        ):
            return BlockingLimit(
                f"Your job {job.id} is waiting because of a limit of your account or QOS "
                f"({job.reason}), and this session would wait too.",
                None,
            )
    return None
