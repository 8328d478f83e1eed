"""Live board of a course: one tile for each student."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen
from .live import Activity, Help


class TileState(StrEnum):
    """State of a student's session."""

    NONE = "none"  # not started
    WAITING = "waiting"  # for its turn, for Slurm, for its server
    RUNNING = "running"
    FAILED = "failed"  # the last session failed, and none was started since


class Tile(Activity):
    """Tile of one student. Times are Unix seconds, memory MiB, ``gpu_use`` percent of all its
    GPUs and those of its kernels; None: unknown or not applicable. ``words``: its state in words,
    as why it waits or failed. ``kernels``: number of kernels in jobs of their own that wait or run;
    ``kernel_gpus``: GPUs of those that run. ``runs``: number of runs that wait or run.

    ``opened_at``, ``last_activity``, ``notebooks``, ``hand``, ``handout`` are reported by the
    session itself; they are empty for admins who are not on the course's staff.
    """

    person: str
    state: TileState = TileState.NONE
    words: str = ""
    session_id: str = ""
    job_id: str = ""
    since: float | None = None  # time of the request; of a running one: when it was ready
    ends_at: float | None = None
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    gpu_use: float | None = None
    gpu_memory: int | None = None
    cpus: int = 0
    memory: int | None = None
    kernels: int = 0
    kernel_gpus: int = 0
    runs: int = 0
    seen_at: float | None = None
    help: Help | None = None  # requested or granted


class CourseBoard(Frozen):
    """Everything on the board, at one ``version`` (which changes with the content).

    ``taken_at``: time of Slurm's last answer; ``error``: why Slurm or the database does not answer
    now. ``handout``: revision that folders should have. ``simulated``: GPU use is the demo's.
    """

    version: str
    at: float
    taken_at: float | None = None
    error: str = ""
    simulated: bool = False
    handout: str = ""
    counts: dict[TileState, int] = {}
    hands: int = 0
    tiles: tuple[Tile, ...] = ()
