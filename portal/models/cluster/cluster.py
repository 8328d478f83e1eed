"""Snapshot of the cluster: partitions, nodes, GPUs, jobs and reservations, with its age.

Terms and states are Slurm's: squeue(1) "JOB STATE CODES", scontrol(1), sinfo(1).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from .. import Frozen


class JobState(StrEnum):
    """Job states named by squeue(1) and sacct(1), from Slurm 22.05 to 26.05."""

    BOOT_FAIL = "BOOT_FAIL"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    DEADLINE = "DEADLINE"
    EXPEDITING = "EXPEDITING"
    FAILED = "FAILED"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PENDING = "PENDING"
    POWER_UP_NODE = "POWER_UP_NODE"
    PREEMPTED = "PREEMPTED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    RUNNING = "RUNNING"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    TIMEOUT = "TIMEOUT"
    UPDATE_DB = "UPDATE_DB"
    UNKNOWN = "UNKNOWN"  # a state that this portal does not know: never treated as ended

    @property
    def pending(self) -> bool:
        """Return True if the job waits: it holds no node yet and may still start."""
        return self in _PENDING

    @property
    def running(self) -> bool:
        """Return True if the job holds its nodes (also if suspended, stopped, being resized or
        being signalled)."""
        return self in _RUNNING

    @property
    def ended(self) -> bool:
        """Return True if the job is over for good. ``UNKNOWN`` is not: an error must never count
        as the end of a session."""
        return self in _ENDED


_PENDING = frozenset(
    {
        JobState.PENDING,
        JobState.CONFIGURING,
        JobState.POWER_UP_NODE,
        JobState.REQUEUED,
        JobState.REQUEUE_FED,
        JobState.REQUEUE_HOLD,
        JobState.RESV_DEL_HOLD,
        JobState.SPECIAL_EXIT,
        JobState.EXPEDITING,
    }
)
_RUNNING = frozenset(
    {
        JobState.RUNNING,
        JobState.COMPLETING,
        JobState.RESIZING,
        JobState.SIGNALING,
        JobState.STAGE_OUT,
        JobState.STOPPED,
        JobState.SUSPENDED,
        JobState.UPDATE_DB,
    }
)
_ENDED = frozenset(
    {
        JobState.BOOT_FAIL,
        JobState.CANCELLED,
        JobState.COMPLETED,
        JobState.DEADLINE,
        JobState.FAILED,
        JobState.LAUNCH_FAILED,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.PREEMPTED,
        JobState.RECONFIG_FAIL,
        JobState.REVOKED,
        JobState.TIMEOUT,
    }
)


class GpuPool(Frozen):
    """GPUs of one type on one node, or shares of them. ``type`` is "gpu" if Slurm names none, and
    "shard.t4" for shares (gpu_share.py)."""

    type: str
    count: int
    used: int = 0
    used_indexes: tuple[int, ...] | None = None  # None: Slurm did not say which
    shared_indexes: tuple[int, ...] = ()  # those of them of which jobs have shares (shard, MPS)
    each: int = 0  # shares of one GPU, the most that one job gets; 0: whole GPUs
    # GPUs whose used shares Slurm does not count (22.05); all of them are in ``used``.
    uncounted: int = 0


class Node(Frozen):
    """Slurm node. Memory in MiB; ``state`` is Slurm's, with flags ("IDLE+DRAIN")."""

    name: str
    address: str
    state: str
    cpus: int = 0
    cpus_allocated: int = 0
    sockets: int = 0  # 0: unknown
    memory: int = 0
    memory_allocated: int = 0
    gpus: tuple[GpuPool, ...] = ()
    shares: tuple[GpuPool, ...] = ()  # of these GPUs, as GRES of their own
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    reason: str = ""
    reason_at: float | None = None  # Unix seconds

    def pools_of(self, gpu_type: str | None) -> tuple[GpuPool, ...]:
        """Return the GPUs, or the shares, of a type; None: all whole GPUs."""
        if gpu_type is None:
            return self.gpus
        return tuple(pool for pool in (*self.gpus, *self.shares) if pool.type == gpu_type)

    @property
    def usable(self) -> bool:
        """Return True if new jobs can start here, perhaps after the node is switched on: it is not
        down, drained, failing or unknown."""
        return takes_jobs(self.words)

    @property
    def asleep(self) -> bool:
        """Return True if the node is switched off to save power, or on its way there or back: a
        job that gets it starts once it is switched on."""
        return bool(self.words & _POWER)

    @property
    def responding(self) -> bool:
        """Return True if slurmctld reaches the node's slurmd, or does not expect to yet."""
        silent = "NOT_RESPONDING" in self.words and not self.asleep
        return not silent and not self.down

    @property
    def drained(self) -> bool:
        """Return True if new jobs are kept away until the node is resumed; jobs may still run."""
        return not self.words.isdisjoint({"DRAIN", "DRAINED", "DRAINING"})

    @property
    def duplicate_job(self) -> bool:
        """Return True if slurmd has drained the node because slurmctld, which had lost its state,
        started a job anew that was there already ("Duplicate jobid")."""
        return self.drained and "duplicate jobid" in self.reason.lower()

    @property
    def down(self) -> bool:
        """Return True if Slurm has given the node up, until it comes back or is resumed."""
        return "DOWN" in self.words

    @property
    def words(self) -> frozenset[str]:
        """Words of the node's state."""
        return words_of_state(self.state)


@lru_cache(maxsize=512)
def words_of_state(state: str) -> frozenset[str]:
    """Split a node's state into base and flags, spelled out as in sinfo(1) "NODE STATE CODES"."""
    return frozenset(state.replace("*", "+NOT_RESPONDING").split("+"))


@lru_cache(maxsize=512)
def takes_jobs(words: frozenset[str]) -> bool:
    """Return True if a node whose state has these words takes new jobs."""
    # Nobody answers on a node that is switched off or starting.
    silent = {"NOT_RESPONDING"} if words & _POWER else set()
    return not (words - silent) & _UNUSABLE


# Power saving, sinfo(1) "NODE STATE CODES".
_POWER = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP"})
_UNUSABLE = frozenset(
    {
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "FAIL",
        "FAILING",
        "ERROR",
        "UNKNOWN",
        "FUTURE",
        "MAINT",
        "NOT_RESPONDING",
        "REBOOT",
        "INVAL",
        "INVALID_REG",
        "BLOCKED",
    }
)


class Partition(Frozen):
    """Slurm partition. Times in seconds, memory in MiB; None: no limit.

    ``allow_*``/``deny_*`` are names as configured; an empty tuple in ``allow_*`` means all.
    ``groups_known``: all of ``allow_groups`` are groups of the directory, so that a person's
    groups tell whether they may use the partition; other groups only Slurm knows.
    """

    name: str
    default: bool = False
    state: str = "UP"
    nodes: tuple[str, ...] = ()
    max_time: int | None = None
    default_time: int | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    max_cpus_per_node: int | None = None
    max_cpus_per_socket: int | None = None
    max_memory_per_node: int | None = None
    max_memory_per_cpu: int | None = None
    default_memory_per_cpu: int | None = None
    default_memory_per_node: int | None = None
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    qos: str = ""  # the partition's own QOS, whose limits apply to every job in it
    allow_groups: tuple[str, ...] = ()
    groups_known: bool = False
    alloc_nodes: tuple[str, ...] = ()  # hosts from which jobs are submitted; (): all
    root_only: bool = False
    no_root_jobs: bool = False
    requires_reservation: bool = False
    hidden: bool = False
    whole_nodes: bool = False  # OverSubscribe=EXCLUSIVE
    one_user: bool = False  # ExclusiveUser: a node is one user's while jobs run on it
    resume_seconds: int | None = None  # its own ResumeTimeout; None: the cluster's
    priority_tier: int = 1
    preemptable: bool = False  # PreemptMode is not OFF; of the lower PriorityTier only

    @property
    def usual_time(self) -> int | None:
        """Time limit of a job that names none (slurm.conf(5), DefaultTime); None: no limit."""
        return self.max_time if self.default_time is None else self.default_time


class Job(Frozen):
    """Slurm job. Times are Unix seconds, durations seconds, memory MiB; None: unknown."""

    id: str  # as Slurm writes it: "1234", "1234_5" (array), "1234+1" (heterogeneous)
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    state: JobState = JobState.UNKNOWN
    reason: str = ""
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    memory: int | None = None
    gpus: int = 0
    gpu_type: str = ""
    gpu_indexes: dict[str, tuple[int, ...]] = {}  # node name -> GPU indexes on it
    shares: dict[str, int] = {}  # GRES ("shard") -> Slurm's units, if Slurm accounts for it
    priority: int | None = None
    submit_time: float | None = None
    start_time: float | None = None  # for a pending job: Slurm's expected start
    end_time: float | None = None
    time_limit: int | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    peak_memory: int | None = None  # from accounting, after the end
    node_trouble: str = ""  # why Slurm ended it: "cpu01 (Prolog error)"
    comment: str = ""
    stdout: str = ""
    work_dir: str = ""


class Reservation(Frozen):
    """Slurm reservation. Times are Unix seconds. ``gpus`` are those in its own TRES, 0 if it holds
    whole nodes; ``gpu_type`` is "" if Slurm does not report it."""

    name: str
    state: str = ""
    start_time: float
    end_time: float
    nodes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    partition: str = ""
    flags: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""


class Association(Frozen):
    """Row of sacctmgr's associations: the user may charge the account, with these QOS.

    ``partition`` is "" if the row is not bound to one. Limits: None: not set.
    """

    user: str
    account: str
    partition: str = ""
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    is_default_account: bool = False
    max_jobs: int | None = None
    max_submit_jobs: int | None = None
    max_gpus_per_job: int | None = None
    max_wall: int | None = None


class Qos(Frozen):
    """Slurm QOS."""

    name: str
    max_wall: int | None = None  # seconds, None: no limit
    # Limits by scope ("job", "user", "account", "group", "node"), then by Slurm's name of the TRES
    # ("cpu", "gres/gpu", "gres/gpu:v100", "mem" in MiB).
    max_tres: dict[str, dict[str, int]] = {}
    flags: tuple[str, ...] = ()  # as configured


class ClusterSnapshot(Frozen):
    """Snapshot of the cluster at one moment.

    If Slurm does not answer, the last one is kept with its old time and an ``error``.
    """

    taken_at: float  # Unix seconds, for display
    # The same moment on the monotonic clock of the process that asked Slurm: ages and order are
    # computed from it, since the system clock may be set. None: the snapshot was not requested in
    # this process.
    asked_at: float | None = None
    partitions: dict[str, Partition] = {}
    nodes: dict[str, Node] = {}
    jobs: dict[str, Job] = {}
    reservations: dict[str, Reservation] = {}
    qos: dict[str, Qos] = {}  # only if requested; a QOS that is missing here is unknown
    error: str = ""  # sentence that says what failed; "": a fresh answer
    submit_host: str = ""  # short name of the machine that submits jobs; "": unknown
    # Time in which a node that is asleep is switched on, unless its partition has a time of its
    # own; None: unknown, or none is asleep.
    resume_seconds: int | None = None

    def resume_seconds_of(self, nodes: Iterable[Node]) -> int | None:
        """Return the longest time in which these nodes are switched on; None: unknown. A node of
        several partitions has the longest of theirs (slurm.conf(5), ResumeTimeout)."""
        longest: int | None = 0
        for partitions in {node.partitions for node in nodes}:
            known = [self.partitions[name] for name in partitions if name in self.partitions]
            own = [part.resume_seconds for part in known if part.resume_seconds is not None]
            needed = max(own, default=self.resume_seconds)
            longest = None if longest is None or needed is None else max(longest, needed)
        return longest or None

    @property
    def age(self) -> float:
        """Seconds since Slurm last answered."""
        if self.asked_at is not None:
            return max(0.0, time.monotonic() - self.asked_at)
        return max(0.0, time.time() - self.taken_at)
