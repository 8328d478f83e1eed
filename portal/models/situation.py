"""Status of a running session, for the session itself: its time, its GPUs, and what may be done.

Its server requests it with its own token, for JupyterLab and for the terminal.
"""

from __future__ import annotations

from . import Frozen
from .announcement import Level
from .cluster.gpu import GpuUse
from .course.live import CourseSituation
from .help import SpaceHelp
from .session.idle import IdleState
from .session.move import Move


class ExtendOffer(Frozen):
    """Offer to extend the session's time. ``reason``: sentence why that is not possible."""

    allowed: bool = False
    minutes: tuple[int, ...] = ()  # choices, ascending
    latest_end: float | None = None  # latest possible end, Unix seconds
    reason: str = ""


class GpuNow(GpuUse):
    """GPU of the session; None: unknown. Memory in MiB."""

    type: str = ""
    source: str = ""  # "session", "dcgm", "amd", "simulated"; "": nothing is known


class Message(Frozen):
    """Announcement that is active now. Plain text."""

    id: int
    text: str
    level: Level
    ends_at: float


class ProjectSituation(Frozen):
    """Project of a session in which a member is or wants to be. ``help``: requests and visits."""

    name: str
    title: str
    help: tuple[SpaceHelp, ...]


class Situation(Frozen):
    """Status of a session. Times are Unix seconds of the service's clock, given by ``now``.

    ``taken_at``: time of Slurm's last answer; ``error``: sentence why Slurm does not answer now;
    its data here are then those of the last answer.
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
    memory: int | None = None  # MiB requested by the job
    gpu_type: str = ""
    gpus: tuple[GpuNow, ...] = ()
    simulated: bool = False  # the GPUs' readings are simulated, for a demo
    extend: ExtendOffer = ExtendOffer()
    hint: str = ""  # the right-size hint, in a sentence
    announcements: tuple[Message, ...] = ()
    idle: IdleState = IdleState()
    move: Move | None = None
    course: CourseSituation | None = None  # of a session that belongs to a course
    project: ProjectSituation | None = None  # of a session that a member asks to open, or has open
    links: dict[str, str] = {}  # "session": its page; "launch"; "cluster"
