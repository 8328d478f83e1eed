"""Run as its user sees it: with the number of points in each state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from portal.models import Frozen
from portal.models.session.run import Notify, Parameter, PointState, Run, RunDrift, RunPoint
from portal.models.session.search import SearchItem
from portal.models.session.session import SessionRecord, SessionState

from .best import BestPoint


class RunState(StrEnum):
    """State of a run. RUNNING: a point runs or has ended, and the run has not."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class PointCounts(Frozen):
    """Number of a run's points in each state."""

    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    lost: int = 0


class RunItem(Run):
    """Run, with its state and the number of its points in each."""

    state: RunState
    counts: PointCounts


class RunDetail(RunItem):
    """Run, and why it waits or how it ended: ``message``, a sentence. ``metrics`` and
    ``parameters``: names that its points have reported, in alphabetical order; ``search``: of a run
    whose parameters are searched. ``lowest`` and ``highest``: the best points by the metric that
    was asked for; null: none. ``after_name``: the name of the run that it starts after, while that
    is kept; ``notify``: the events that the user gets mail about. ``mine``: false if another user
    shares it. ``drift``: of a repetition, the differences from the original, the most frequent
    first. ``missing``: the number of points whose last reports did not arrive."""

    message: str = ""
    metrics: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    search: SearchItem | None = None
    lowest: BestPoint | None = None
    highest: BestPoint | None = None
    after_name: str = ""
    notify: Notify = ()
    mine: bool = True
    drift: tuple[RunDrift, ...] = ()
    missing: int = 0


class PointsPage(Frozen):
    """Page of a run's points. ``total`` counts all with the same filter."""

    items: tuple[RunPoint, ...]
    total: int


class PointCurve(Frozen):
    """Curve of a point: pairs of a step and a value, in the order in which they were reported, and
    the ``parameters`` of the point."""

    number: int
    pairs: tuple[tuple[float, float], ...]
    parameters: Mapping[str, Parameter] = {}


class CurvesPage(Frozen):
    """Curves of the first points in an order. ``total`` counts all points that have any."""

    items: tuple[PointCurve, ...]
    total: int


# Resources that only the user of a run can ask for.
OF_OWNER = ("account", "qos", "reservation")


def for_others(run: Run) -> Run:
    """Return a run as other users see it: without what it says of its user's other runs and
    accounts."""
    resources = {name: value for name, value in run.resources.items() if name not in OF_OWNER}
    return run.model_copy(update={"resources": resources, "after": "", "reason": ""})


def run_item(run: Run, counts: Mapping[PointState, int], session: SessionRecord | None) -> RunItem:
    """Return the item of a run. ``counts``: of its points with a row; ``session``: its session,
    while that lives."""
    others = run.points - sum(counts.values())
    waiting = max(0, others) + counts.get(PointState.WAITING, 0)
    if run.ended_at is not None:
        state = RunState.ENDED
    elif any(number for point, number in counts.items() if point is not PointState.WAITING) or (
        session and session.state is not SessionState.PENDING
    ):
        state = RunState.RUNNING
    else:
        state = RunState.WAITING
    numbers = {str(name): number for name, number in counts.items()}
    return RunItem(
        **run.model_dump(), state=state, counts=PointCounts(**{**numbers, "waiting": waiting})
    )
