"""Changes from one version to the next, as bytes that all viewers share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..models.cluster.dashboard import Changes
from .builder import Items
from .view import ClusterView, mine

# With more new items than this, a client had better get the board and its lists anew: nearly
# everything has changed, as at the start or after Slurm was away for long.
_MOST = 4000
_MOST_MOVED = 50  # of one person's waiting jobs, the first ones


@dataclass(frozen=True, eq=False)
class Step:
    """Step to one version. It outlives the view and does not contain it.

    ``named`` and ``unnamed`` are for viewers who may see the names and for the others. ``frames``
    are the same as "change" events, by whether they contain names. ``whole``: too much has changed
    for a step; the frames say "reset".
    """

    stream: str
    version: int
    named: Changes
    unnamed: Changes
    frames: Mapping[bool, bytes]
    whole: bool = False

    def changes(self, named: bool) -> Changes:
        """Return the step for this kind of viewer; nothing in it is marked as theirs."""
        return self.named if named else self.unnamed


def step(view: ClusterView, items: Items, whole: bool = False) -> Step:
    """Build the step that led to ``view``, from ``items``; ``whole``: these are incomplete."""
    changed = len(items.changed_gpus) + len(items.changed_jobs) + len(items.changed_nodes)
    if whole or changed > _MOST:
        bare = head(view)
        frame = event("reset", bare)
        return Step(view.stream, view.version, bare, bare, {True: frame, False: frame}, True)
    named, unnamed = _changes(view, items, True), _changes(view, items, False)
    frames = {True: event("change", named), False: event("change", unnamed)}
    return Step(view.stream, view.version, named, unnamed, frames)


def own_frame(view: ClusterView, items: Items, user: str) -> bytes:
    """Build the event "own": changes to this person's own items, with names; b"" for none.

    It includes what is not sent to others: a new position in the queue or expected start.
    """
    owned = view.owned_by(user)
    changed_gpus, changed_jobs = set(items.changed_gpus), set(items.changed_jobs)
    gpus = {key: mine(view.gpus[key]) for key in owned.gpus if key in changed_gpus}
    jobs = {id_: mine(view.jobs[id_]) for id_ in owned.jobs if id_ in changed_jobs}
    moved = sorted(
        items.moved_jobs.intersection(owned.jobs), key=lambda id_: items.positions.get(id_, 0)
    )
    jobs |= {id_: mine(view.jobs[id_]) for id_ in moved[:_MOST_MOVED]}
    return event("own", head(view, gpus=gpus, jobs=jobs)) if gpus or jobs else b""


def head(view: ClusterView, **items: Any) -> Changes:
    """Build changes with the age, the errors and the counts of this view, and these items."""
    return Changes.trusted(
        stream=view.stream,
        version=view.version,
        taken_at=view.taken_at,
        error=view.error,
        telemetry_error=view.telemetry_error,
        telemetry_at=view.telemetry_at,
        summary=view.summary,
        **items,
    )


def _changes(view: ClusterView, items: Items, named: bool) -> Changes:
    gpus, jobs = (view.gpus, view.jobs) if named else (view.unnamed_gpus, view.unnamed_jobs)
    return head(
        view,
        nodes={name: view.nodes[name] for name in items.changed_nodes},
        gpus={key: gpus[key] for key in items.changed_gpus},
        jobs={id_: jobs[id_] for id_ in items.changed_jobs},
        gone_nodes=items.gone_nodes,
        gone_gpus=items.gone_gpus,
        gone_jobs=items.gone_jobs,
    )


def event(kind: str, changes: Changes) -> bytes:
    """Encode a server-sent event (WHATWG HTML, 9.2). Default values are omitted."""
    data = changes.model_dump_json(exclude_defaults=True)
    id_ = f"{changes.stream}-{changes.version}"
    return f"event: {kind}\nid: {id_}\ndata: {data}\n\n".encode()


class Ring:
    """Buffer of the last steps, so that a viewer who was away for a while need not begin anew."""

    def __init__(self, length: int) -> None:
        self._steps: deque[Step] = deque(maxlen=length)

    def add_step(self, step: Step) -> None:
        """Add the newest step; one that changed everything discards all earlier steps."""
        if step.whole:
            self._steps.clear()
        self._steps.append(step)

    def since(self, stream: str, version: int) -> list[Step] | None:
        """Return the steps after this version; None if they are not all known."""
        if not self._steps:
            return None
        newest, oldest = self._steps[-1], self._steps[0]
        first = oldest.version - (not oldest.whole)
        if stream != newest.stream or not first <= version <= newest.version:
            return None
        return [step for step in self._steps if step.version > version]

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)
