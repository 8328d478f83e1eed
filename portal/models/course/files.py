"""Handouts and collections of a course, as its staff sees them."""

from __future__ import annotations

from .. import Frozen
from .live import Collected, HandoutRevision


class HandoutFile(Frozen):
    """File that everyone gets. ``uploaded``: from the page, not from the course's source of files.
    ``size`` in bytes."""

    path: str
    size: int
    uploaded: bool = False


class HandoutState(Frozen):
    """Current handouts. ``problem``: why the last fetch failed, at ``problem_at`` (Unix seconds);
    the previous files then stay. ``left_out``: a sentence."""

    revision: str = ""
    files: tuple[HandoutFile, ...] = ()
    size: int = 0  # bytes
    left_out: str = ""
    problem: str = ""
    problem_at: float | None = None
    fetched_at: float | None = None
    revisions: tuple[HandoutRevision, ...] = ()  # the newest first


class CollectItem(Frozen):
    """Collection: what students gave, with times in Unix seconds and sizes in bytes, and which
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
    """Collections of a course, newest first."""

    items: tuple[CollectItem, ...]
