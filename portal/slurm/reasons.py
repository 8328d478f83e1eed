"""Slurm's reasons and states in words for people.

Keys are the words that squeue(1) and scontrol print ("JOB REASON CODES", "JOB STATE CODES"). A
word that is not known here is shown as Slurm wrote it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..launch.estimate_words import about
from ..models.cluster.cluster import Job, JobState, takes_jobs, words_of_state
from ..models.cluster.dashboard import QueueReason

_PENDING = {
    "Resources": "waiting for resources",
    "Priority": "waiting behind jobs with a higher priority",
    "Dependency": "waiting for another job",
    "DependencyNeverSatisfied": "waiting for another job that can no longer succeed: cancel it",
    "BeginTime": "waiting for its start time",
    "JobHeldUser": "held by its owner",
    "JobHeldAdmin": "held by an administrator",
    # The owner can release these two: they are WAIT_HELD_USER, as sacct says (JobHeldUser).
    "job requeued in held state": "requeued and held: release it with 'scontrol release', or "
    "launch it again",
    "launch failed requeued held": "held because its launch failed on its node: release it with "
    "'scontrol release', or launch it again",
    "JobHoldMaxRequeue": "held because it was started too often without success: launch it again, "
    "or ask an administrator to release it",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "held because its reservation was deleted",
    "ReqNodeNotAvail": "the nodes it needs are not available now (reserved, drained or down)",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "the nodes it needs are down, drained or reserved"
    ),
    "PartitionDown": "the partition is closed at the moment",
    "PartitionInactive": "the partition accepts no jobs at the moment",
    "PartitionTimeLimit": "it requests more time than the partition allows",
    "PartitionNodeLimit": "it requests more nodes than the partition has free or allows",
    "PartitionConfig": "the partition does not allow its request",
    "AccountNotAllowed": "the account is not allowed in this partition",
    "QOSNotAllowed": "the QOS is not allowed here",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the QOS is not valid",
    "BadConstraints": "no node can ever satisfy its request",
    "Licenses": "waiting for a licence",
    "Prolog": "the node is being prepared",
    "NodeDown": "a node it needs is down",
    "Cleaning": "an earlier run of it is being cleaned up",
    "InactiveLimit": "it reached the inactivity limit",
    "JobArrayTaskLimit": "its array runs its maximum number of tasks",
    "AssociationJobLimit": "your account runs its maximum number of jobs",
    "QOSJobLimit": "the QOS runs its maximum number of jobs",
    "MaxSubmitJobs": "too many jobs have already been submitted",
    "FrontEndDown": "no front end node is available",
    "SchedDefer": "Slurm will consider it soon",
    "SystemFailure": "Slurm had an internal error",
    "JobLaunchFailure": "it could not be started on its node",
    "ReqNodeNotAvail, May be reserved for other job": "the nodes it needs are not available now: "
    "they may be reserved for another job",
    "Maintenance": "planned maintenance starts before it could end",
    "BurstBufferResources": "waiting for the burst buffer",
    "DeadLine": "it can no longer end before its deadline",
    "None": "Slurm has not considered it yet",
    "": "Slurm has not considered it yet",
}

_CLASSES = {
    "Resources": QueueReason.RESOURCES,
    "Priority": QueueReason.PRIORITY,
    "Dependency": QueueReason.DEPENDENCY,
    "DependencyNeverSatisfied": QueueReason.DEPENDENCY,
    "BeginTime": QueueReason.TIME,
    "Reservation": QueueReason.TIME,
    "Maintenance": QueueReason.TIME,
    "JobHoldMaxRequeue": QueueReason.HELD,
    "ReservationDeleted": QueueReason.HELD,
    "JobArrayTaskLimit": QueueReason.LIMIT,
    "AssociationJobLimit": QueueReason.LIMIT,
    "QOSJobLimit": QueueReason.LIMIT,
    "MaxSubmitJobs": QueueReason.LIMIT,
}

_STATES = {
    JobState.BOOT_FAIL: "the node failed to boot",
    JobState.CANCELLED: "it was cancelled",
    JobState.COMPLETED: "it ended normally",
    JobState.COMPLETING: "it is ending",
    JobState.CONFIGURING: "its nodes are being prepared or switched on",
    JobState.DEADLINE: "it could not end before its deadline",
    JobState.EXPEDITING: "it is being started again at once",
    JobState.FAILED: "it failed",
    JobState.LAUNCH_FAILED: "it could not be started on its node",
    JobState.NODE_FAIL: "its node failed",
    JobState.OUT_OF_MEMORY: "it used more memory than it requested",
    JobState.PENDING: "waiting",
    JobState.POWER_UP_NODE: "its nodes are being switched on",
    JobState.PREEMPTED: "it was preempted by a job with a higher priority",
    JobState.RECONFIG_FAIL: "its node could not be reconfigured",
    JobState.REQUEUED: "it was requeued",
    JobState.REQUEUE_FED: "it was requeued on another cluster",
    JobState.REQUEUE_HOLD: "it was requeued and is held",
    JobState.RESIZING: "it is being resized",
    JobState.RESV_DEL_HOLD: "it is held because its reservation was deleted",
    JobState.REVOKED: "another cluster took it over",
    JobState.RUNNING: "it is running",
    JobState.SIGNALING: "it is being sent a signal",
    JobState.SPECIAL_EXIT: "it ended with a special status and is held",
    JobState.STAGE_OUT: "its files are being copied back",
    JobState.STOPPED: "it was stopped; its CPUs are kept",
    JobState.SUSPENDED: "it was suspended; its CPUs are lent to others",
    JobState.TIMEOUT: "it reached its time limit",
    JobState.UPDATE_DB: "its accounting is being written",
    JobState.UNKNOWN: "Slurm no longer knows it",
}

# The first match says most. Words of a node's state, sinfo(1) "NODE STATE CODES".
_NODE = (
    ({"NOT_RESPONDING"}, "does not answer"),
    ({"REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED"}, "is being rebooted"),
    ({"FUTURE"}, "not in service yet"),
    ({"DOWN", "ERROR"}, "down"),
    ({"INVAL", "INVALID_REG"}, "has fewer resources than slurm.conf says, and accepts no jobs"),
    ({"FAIL", "FAILING"}, "may fail soon, and accepts no jobs"),
    ({"MAINT"}, "in maintenance"),
    ({"BLOCKED"}, "kept free for a job that needs the whole node"),
    ({"UNKNOWN"}, "Slurm has not heard from it yet"),
)
# Power saving, of nodes that take jobs.
_NODE_POWER = (
    ({"POWERING_UP", "POWER_UP"}, "is being switched on"),
    ({"POWER_DOWN"}, "is switched off when its jobs end, and on again when needed"),
    ({"POWERING_DOWN"}, "is being switched off, and on again when needed"),
    ({"POWERED_DOWN"}, "off to save power, is switched on when needed"),
)
_NODE_IN_USE = {"ALLOCATED", "MIXED", "COMPLETING"}
_NODE_FREE = (
    ({"RESERVED"}, "reserved"),
    ({"COMPLETING"}, "its jobs are ending"),
    ({"PLANNED"}, "kept for a job that starts soon"),
    ({"ALLOCATED"}, "in use"),
    ({"MIXED"}, "partly in use"),
    ({"IDLE"}, "free"),
)

# Limits are named by who sets them, whose they are, and what they limit: QOSMaxGRESPerUser,
# AssocGrpCpuLimit, MaxGRESPerAccount … (squeue(1) names about a hundred of them).
_LIMIT = re.compile(
    r"^(QOS|Assoc|Association)?(Grp|Max|Min)(\w*?)(PerUser|PerAccount|PerNode|PerJob)?(Limit)?$"
)
_WHAT = (
    ("GRESMinutes", "GPU time"),
    ("GRESRunMinutes", "running GPU time"),
    ("GRES", "GPUs"),
    ("CPUMinutes", "CPU time"),
    ("CPURunMinutes", "running CPU time"),
    ("CPU", "CPUs"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("Wall", "time"),
    ("SubmitJob", "submitted jobs"),
    ("Job", "jobs"),
    ("Billing", "billing"),
    ("Energy", "energy"),
    ("Licen", "licences"),
)  # fmt: skip


def pending_words(reason: str) -> str:
    """Return why a job waits: "waiting for resources" for "Resources"; else Slurm's own words."""
    known = _PENDING.get(reason) or _PENDING.get(reason.partition(",")[0].strip())
    if known:
        return known
    limit = _LIMIT.match(reason)
    if limit:
        setter, _, rest, each, _ = limit.groups()
        what = next(
            (word for key, word in _WHAT if rest.lower().startswith(key.lower())), rest or "jobs"
        )
        whose = {
            "PerUser": "per user",
            "PerAccount": "per account",
            "PerNode": "per node",
            "PerJob": "per job",
        }.get(each or "", "for one job" if limit[2] == "Max" else "together")
        where = {"QOS": "the QOS", "Assoc": "the account", "Association": "the account"}.get(
            setter or "", "the site"
        )
        return f"a limit of {where} is reached: {what} {whose} ({reason})"
    return reason.strip() or "waiting"


@lru_cache(maxsize=512)
def queue_reason(reason: str) -> QueueReason:
    """Return the class of a reason; whether the job is held, its priority says too."""
    word = reason.partition(",")[0].strip()
    if word in _CLASSES:
        return _CLASSES[word]
    if word.startswith("JobHeld") or "held" in word.split():
        return QueueReason.HELD
    return QueueReason.LIMIT if _LIMIT.match(word) else QueueReason.OTHER


def state_words(state: JobState) -> str:
    """Return a job state in words: "it reached its time limit" for TIMEOUT."""
    return _STATES.get(state, str(state))


def node_words(state: str, resume_seconds: int | None = None) -> str:
    """Return a node's state in words: "drained: takes no jobs" for "IDLE+DRAIN".
    ``resume_seconds``: time in which a node is switched on; None: unknown."""
    words = words_of_state(state)
    if takes_jobs(words):
        for flags, description in _NODE_POWER:
            if words & flags:
                return f"{description}{waking_words(resume_seconds)}"
    for flags, description in _NODE:
        if words & flags:
            return description
    if words & {"DRAIN", "DRAINED", "DRAINING"}:
        busy = words & _NODE_IN_USE or "DRAINING" in words
        return (
            "draining: running jobs continue, no new jobs start"
            if busy
            else "drained: no jobs start"
        )
    return next((description for flags, description in _NODE_FREE if words & flags), state)


def waking_words(resume_seconds: int | None) -> str:
    """Return how long a node takes to be switched on: ", about 10 min"; "" if unknown."""
    return "" if resume_seconds is None else f", {about(resume_seconds)}"


def end_words(job: Job) -> str:
    """Return why a job ended: its state in words, with exit code, signal and memory if known.

    For ``NonZeroExitCode`` and a raised signal, the numbers themselves say why.
    """
    description = state_words(job.state)
    if job.reason.startswith("CancelledBy:"):
        return f"{description} by {job.reason.partition(':')[2]}"
    if job.state is JobState.FAILED:
        if job.reason in ("JobLaunchFailure", "LaunchFailure") and not job.exit_code:
            return f"{description}: Slurm ended it or could not start it ({job.reason})"
        if job.exit_signal:
            return f"{description}: ended by signal {job.exit_signal}"
        if job.exit_code:
            return f"{description} with exit code {job.exit_code}"
        if job.reason and job.reason != "NonZeroExitCode":
            return f"{description}: {job.reason}"
    if job.state is JobState.OUT_OF_MEMORY and job.memory:
        return f"{description} ({job.memory} MiB)"
    return description
