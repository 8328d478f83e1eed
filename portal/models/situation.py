"""What a running session is told about itself: its time, its GPUs, and what may be done.

Its server asks for it with its own token, for JupyterLab and for the terminal.
"""

from __future__ import annotations

from . import Frozen
from .announcement import Level
from .course.live import CourseSituation
from .session.idle import IdleState
from .session.move import Move


class ExtendOffer(Frozen):
    """Whether and how the session's time can be extended. ``reason``: the sentence why not."""

    allowed: bool = False
    minutes: tuple[int, ...] = ()  # what may be chosen, ascending
    latest_end: float | None = None  # Unix seconds: the end can be set no later than this
    reason: str = ""


class GpuNow(Frozen):
    """One GPU of the session; None is unknown. Memory in MiB."""

    node: str
    index: int
    type: str = ""
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    source: str = ""  # "session", "dcgm", "amd", "simulated"; "" where nothing is known


class Message(Frozen):
    """An announcement that is on now. Plain text."""

    id: int
    text: str
    level: Level
    ends_at: float


class Situation(Frozen):
    """Times are Unix seconds of the service's clock, which ``now`` tells.

    ``taken_at`` is when Slurm last answered; ``error`` the sentence why it does not now: then what
    is of Slurm here is as it was.
    """

    now: float
    taken_at: float
    error: str = ""
    session_id: str
    job_id: str
    user: str
    environment: str
    environment_title: str = ""
    node: str = ""
    started_at: float | None = None
    ends_at: float | None = None
    warn_minutes: tuple[int, ...] = (15, 5)  # minutes before the end at which to warn
    cpus: int = 0
    memory: int | None = None  # MiB that the job asked for
    gpu_type: str = ""
    gpus: tuple[GpuNow, ...] = ()
    simulated: bool = False  # the GPUs' readings are made up, for a demo
    extend: ExtendOffer = ExtendOffer()
    hint: str = ""  # the right-size hint, in a sentence
    announcements: tuple[Message, ...] = ()
    idle: IdleState = IdleState()
    move: Move | None = None
    course: CourseSituation | None = None  # of a session that belongs to a course
    links: dict[str, str] = {}  # "session": its page; "launch"; "cluster"
