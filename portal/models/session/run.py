"""Run: a notebook or script that is executed once for each of its points, as one Slurm array."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from .. import Frozen

MOST_POINTS = 10_000
MOST_AT_ONCE = 1_000
MOST_ATTEMPTS = 100_000
MOST_RESUMES = 1_000
_LONGEST = 1_000  # characters of a path


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed")
    return text


def _inside(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("must not contain '..'")
    return path


RunId = Annotated[
    str,
    # As a session's server writes it: a UUID, with or without dashes.
    StringConstraints(pattern=r"^[0-9a-f](-?[0-9a-f]){7,39}$", max_length=40),
    Field(examples=["5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"]),
]
RunName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,59}$"),
    Field(examples=["learning-rates"]),
]
RunSource = Annotated[
    str,
    StringConstraints(min_length=1, max_length=_LONGEST),
    AfterValidator(_printable),
    Field(examples=["work/train.ipynb"]),
]
RunFolder = Annotated[
    str,
    StringConstraints(pattern=r"^/", max_length=_LONGEST),
    AfterValidator(_printable),
    AfterValidator(_inside),
    Field(examples=["/home/ada/projects/runs/learning-rates"]),
]
Points = Annotated[int, Field(ge=1, le=MOST_POINTS, strict=True)]
AtOnce = Annotated[int, Field(ge=1, le=MOST_AT_ONCE, strict=True)]
Resumes = Annotated[int, Field(ge=0, le=MOST_RESUMES, strict=True)]
PointNumber = Annotated[int, Field(ge=0, lt=MOST_POINTS, strict=True)]
Metric = Annotated[float, Field(allow_inf_nan=False)]
MetricName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class AskedRun(Frozen):
    """Run as it is asked for. ``source``: the notebook or script, for display; ``folder``: the
    absolute path of the run's folder, with its frozen copy; ``points``: their number;
    ``at_once``: how many of them run at the same time at most; ``resumes``: how many times a
    point goes on in another job after the time limit of its own."""

    id: RunId
    name: RunName
    source: RunSource
    folder: RunFolder
    points: Points
    at_once: AtOnce = 10
    resumes: Resumes = 0


class Run(AskedRun):
    """Run as it is kept. Times are Unix seconds, null: not yet. ``server``: its session's at the
    Hub; ``job_id``: of the Slurm array, "" while it is not known; ``resources``: those asked
    for."""

    user: str
    server: str
    environment: str
    resources: Mapping[str, Any] = {}
    created_at: float
    ended_at: float | None = None
    job_id: str = ""


class PointState(StrEnum):
    """State of a point. ``LOST``: its run has ended, and nobody reported how it ended."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


FINAL = frozenset({PointState.SUCCEEDED, PointState.FAILED, PointState.LOST})


class RunPoint(Frozen):
    """Point of a run, by its ``number`` from 0. ``cell`` of ``cells``: the notebook's cell that
    runs or ran last, from 1; null for a script. ``message``: a sentence about its end. ``job``: its
    Slurm job, such as "123_4". ``attempt``: from 1; more than that if Slurm ran it again."""

    number: int
    state: PointState = PointState.WAITING
    cell: int | None = None
    cells: int | None = None
    message: str = ""
    metrics: Mapping[str, float] = {}
    job: str = ""
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
