"""The live board of a course: one tile for each student."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen
from .live import Help


class TileState(StrEnum):
    """How a student's session is."""

    NONE = "none"  # not started
    WAITING = "waiting"  # for its turn, for Slurm, for its server
    RUNNING = "running"
    FAILED = "failed"  # the last one, and none since


class Tile(Frozen):
    """One student. Times are Unix seconds, memory MiB, ``gpu_use`` percent of all its GPUs; None
    is unknown or not so. ``words`` say how it is: why it waits, why it failed.

    ``opened_at``, ``last_activity``, ``notebooks``, ``hand``, ``handout`` are what the session
    itself tells; they are empty for who looks as an admin and is not of the course's staff.
    """

    person: str
    state: TileState = TileState.NONE
    words: str = ""
    session_id: str = ""
    job_id: str = ""
    since: float | None = None  # when it was asked for; when it was ready
    ends_at: float | None = None
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    gpu_use: float | None = None
    gpu_memory: int | None = None
    cpus: int = 0
    memory: int | None = None
    seen_at: float | None = None
    opened_at: float | None = None
    last_activity: float | None = None
    notebooks: tuple[str, ...] = ()
    hand: str = ""
    hand_at: float | None = None
    handout: str = ""
    handout_message: str = ""
    help: Help | None = None  # the one that is asked for or granted


class CourseBoard(Frozen):
    """Everything on the board, at one ``version`` (which differs where anything else does).

    ``taken_at``: when Slurm last answered; ``error`` says why it, or the database, does not now.
    ``handout``: the revision that folders should have. ``simulated``: GPU use is the demo's.
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
