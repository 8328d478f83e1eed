"""Run: a notebook or script that is executed once for each of its points, as one Slurm array."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StringConstraints, model_validator

from .. import Frozen
from ..space import SpaceName
from .chosen_id import ID, LONGEST_ID, SHOULD_BE
from .point_numbers import PointNumbers, expanded

MOST_POINTS = 10_000
MOST_AT_ONCE = 1_000
MOST_ATTEMPTS = 100_000
MOST_DRIFT = 30  # sentences about a point
MOST_RESUMES = 1_000
MOST_RANKS = 256  # on a node
LONGEST_PATH = 1_000  # characters


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
    StringConstraints(pattern=f"^{ID}$", max_length=LONGEST_ID),
    Field(description=SHOULD_BE, examples=["5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"]),
]
RunName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,59}$"),
    Field(
        description="A text of 1 to 60 letters, digits, dots, underscores and dashes, the first of "
        "which is no dot or dash",
        examples=["learning-rates"],
    ),
]
RunSource = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_PATH),
    AfterValidator(_printable),
    Field(description="A path of 1 to 1,000 printable characters", examples=["work/train.ipynb"]),
]
RunFolder = Annotated[
    str,
    StringConstraints(pattern=r"^(/|~/)", max_length=LONGEST_PATH),
    AfterValidator(_printable),
    AfterValidator(_inside),
    Field(
        description="An absolute path of at most 1,000 printable characters, without '..'",
        examples=["/home/ada/projects/runs/learning-rates"],
    ),
]
Points = Annotated[int, Field(ge=1, le=MOST_POINTS, strict=True)]
# Id of the run that must succeed before another starts; "" for none.
AfterRun = Annotated[
    str,
    StringConstraints(pattern=f"^({ID})?$", max_length=LONGEST_ID),
    Field(
        description="The id of another run of yours, or empty",
        examples=["6e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"],
    ),
]
AtOnce = Annotated[int, Field(ge=1, le=MOST_AT_ONCE, strict=True)]
KeepFailed = Annotated[bool, Field(strict=True)]
Resumes = Annotated[int, Field(ge=0, le=MOST_RESUMES, strict=True)]
Ranks = Annotated[int, Field(ge=0, le=MOST_RANKS, strict=True)]
Digest = Annotated[
    str,
    StringConstraints(pattern=r"^(sha256:[0-9a-f]{64})?$"),
    Field(description="'sha256:' and 64 hexadecimal digits"),
]
PointNumber = Annotated[int, Field(ge=0, lt=MOST_POINTS, strict=True)]
Metric = Annotated[float, Field(allow_inf_nan=False)]
MetricName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
MOST_PAIRS = 200  # of a curve
Curve = Annotated[list[tuple[Metric, Metric]], Field(max_length=MOST_PAIRS)]
Curves = Annotated[dict[MetricName, Curve], Field(max_length=20)]
ParameterName = Annotated[
    str, StringConstraints(min_length=1, max_length=100), AfterValidator(_printable)
]
Parameter = (
    StrictBool
    | Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)]  # what a browser has exactly
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | Annotated[str, StringConstraints(strict=True, max_length=200), AfterValidator(_printable)]
    | None
)
Drift = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_printable)]
Owner = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(_printable)]


class RunOrigin(Frozen):
    """Run that another one repeats: its ``id``, its ``user``, and its ``folder``."""

    id: RunId
    user: Owner
    folder: RunFolder


# Keys and columns of a run's space, by its type.
SPACE_KEYS = ("course", "project")


class AskedRun(Frozen):
    """Requested run. ``source``: the notebook or script, for display; ``folder``: the absolute path
    of the run's folder, with its frozen copy; ``points``: their number; ``at_once``: how many of
    them run at the same time at most; ``keep_failed``: the kernel of a notebook's cell that fails
    is kept for ten minutes; ``after``: the id of another run of the same user, all of whose points
    must succeed first; ``resumes``: how many times a point goes on in another job after the time
    limit of its own; ``ranks``: how many processes execute a script together on each node, 0: one
    for each GPU if it has several nodes, else one; ``code_digest``: of what is executed, the frozen
    source with its local modules and points, by which each task knows them again; "" of a run that
    is older than this. The folder of a repetition may begin with "~", the home of its user on the
    node.

    The portal sets the rest. ``only``: the numbers of the points that run, "" for all; ``attempt``:
    the attempts of points that are over; ``origin``: what is repeated; ``version`` of the
    environment, 0: the one that is published when the run starts; ``digest`` of its image;
    ``course``, ``project``: of the session that starts the run, "" for one of none."""

    id: RunId
    name: RunName
    source: RunSource
    folder: RunFolder
    points: Points
    at_once: AtOnce = 10
    keep_failed: KeepFailed = False
    after: AfterRun = ""
    resumes: Resumes = 0
    ranks: Ranks = 0
    code_digest: Digest = ""
    only: PointNumbers = ""
    attempt: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS - 1_000, strict=True)] = 0
    origin: RunOrigin | None = Field(
        None, description="An object with 'id', 'user' and 'folder' of the run that is repeated"
    )
    version: Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)] = 0
    digest: Digest = ""
    course: SpaceName | Literal[""] = Field(
        "", description="The name of a course: lowercase letters, digits and dashes"
    )

    project: SpaceName | Literal[""] = Field(
        "", description="The name of a project: lowercase letters, digits and dashes"
    )

    @model_validator(mode="after")
    def _only_has_its_points(self) -> AskedRun:
        if self.only and expanded(self.only)[-1] >= self.points:
            raise ValueError("the run has no such point")
        return self

    @property
    def space(self) -> str:
        """Space of the session that starts the run; "" for its user's own."""
        return self.course or self.project

    @property
    def tasks(self) -> int:
        """Number of points that run."""
        return len(expanded(self.only)) if self.only else self.points


class Run(AskedRun):
    """Run as it is kept. Times are Unix seconds, null: not yet. ``server``: its session's at the
    Hub; ``job_id``: of the Slurm array, "" while it is not known; ``resources``: those asked
    for; ``again_at``: when points that had not succeeded were started again; ``reason``: a sentence
    if the run it was to start after has failed."""

    user: str
    server: str
    environment: str
    resources: Mapping[str, Any] = {}
    created_at: float
    ended_at: float | None = None
    again_at: float | None = None
    job_id: str = ""
    reason: str = ""

    @property
    def begun_at(self) -> float:
        """Time of the newest launch."""
        return self.created_at if self.again_at is None else self.again_at


class RunEvent(StrEnum):
    """Event of a run that its user can be notified of: its end, or the first point that failed."""

    END = "end"
    FAILURE = "failure"


Notify = Annotated[tuple[RunEvent, ...], Field(max_length=len(RunEvent))]


class PointState(StrEnum):
    """State of a point. ``LOST``: its run has ended, and the point did not report how."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


class RunDrift(Frozen):
    """Difference from the original run: a sentence, and the number of points that have it."""

    text: str
    points: int


# How the message of a point begins that has succeeded by ending early in a search
# (optuna.TrialPruned; portal_session/runs/execution/outcome.py).
PRUNED = "Pruned"
FINAL = frozenset({PointState.SUCCEEDED, PointState.FAILED, PointState.LOST})


class RunPoint(Frozen):
    """Point of a run, by its ``number`` from 0. ``cell`` of ``cells``: the notebook's cell that
    runs or ran last, from 1; null for a script. ``message``: a sentence about its end. ``job``: its
    Slurm job, such as "123_4". ``attempt``: from 1; more than that if it ran again. ``drift``: of a
    repetition, the differences from the original point, in sentences. ``missing``: its last report
    did not arrive, so that its newest metrics are only in its folder."""

    number: int
    state: PointState = PointState.WAITING
    cell: int | None = None
    cells: int | None = None
    message: str = ""
    metrics: Mapping[str, float] = {}
    parameters: Mapping[str, Parameter] = {}
    job: str = ""
    attempt: int = 0
    drift: tuple[str, ...] = ()
    missing: bool = False
    started_at: float | None = None
    ended_at: float | None = None
