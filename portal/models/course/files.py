"""What a course hands out and collects, as its staff sees it."""

from __future__ import annotations

from .. import Frozen
from .live import Collected, HandoutRevision


class HandoutFile(Frozen):
    """One file that everyone gets. ``uploaded``: from the page, not from where the course's files
    come from. ``size`` in bytes."""

    path: str
    size: int
    uploaded: bool = False


class HandoutState(Frozen):
    """What is handed out now. ``problem``: why the last try to fetch brought nothing, at
    ``problem_at`` (Unix seconds); then what there was before stays. ``left_out``: a sentence."""

    revision: str = ""
    files: tuple[HandoutFile, ...] = ()
    size: int = 0  # bytes
    left_out: str = ""
    problem: str = ""
    problem_at: float | None = None
    fetched_at: float | None = None
    revisions: tuple[HandoutRevision, ...] = ()  # the newest first


class CollectItem(Frozen):
    """One collection: what was given, with times in Unix seconds and sizes in bytes, and which
    students gave nothing."""

    id: int
    folder: str
    by: str
    at: float
    closed_at: float | None = None
    given: tuple[Collected, ...] = ()
    missing: tuple[str, ...] = ()
    size: int = 0


class CollectList(Frozen):
    """A course's collections, the newest first."""

    items: tuple[CollectItem, ...]
