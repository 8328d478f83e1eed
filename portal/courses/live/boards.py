"""Live boards of courses, made once for all viewers."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from portal.cache import SharedAnswers
from portal.dashboard import ClusterView, Dashboard
from portal.errors import PortalError
from portal.models.course.board import CourseBoard, Tile
from portal.models.course.course import StoredCourse
from portal.store import Store

from .board import ClusterState, Rows, bare, tiles

_AGE = 1.5  # seconds for which a board is shared by all viewers
_DAY = 86400.0
_MOST = 200  # courses whose boards are kept


class _Made(NamedTuple):
    """Board, the same without what sessions report of their students, and the rows of both."""

    board: CourseBoard
    bare: CourseBoard
    rows: Rows


class CourseBoards:
    """Boards of all courses, each made at most every ``age`` seconds for all viewers.

    The cluster is the dashboard's, which asks Slurm by itself; the database is read once for all
    viewers. If it does not answer, its last answer stays, with ``error``.
    """

    def __init__(self, store: Store, dashboard: Dashboard, age: float = _AGE) -> None:
        self._store, self._dashboard, self.age = store, dashboard, age
        self._made = SharedAnswers[str, _Made](most=_MOST, ttl=lambda _: self.age, retry=0.0)

    async def board_of(self, stored: StoredCourse, *, private: bool = True) -> CourseBoard:
        """Return the board of a course; without ``private``, it lacks what sessions report of
        their students. Raises StoreUnavailable if the course's members were never read."""
        boards = await self._made.for_key(stored.name).get(lambda: self._make(stored))
        return boards.board if private else boards.bare

    def forget(self, course: str) -> None:
        """Discard the course's board after a change: the next request gets a new one."""
        self._made.for_key(course).invalidate()

    async def _make(self, stored: StoredCourse) -> _Made:
        error, last = "", self._made.last(stored.name)
        try:
            rows = await self._rows(stored)
        except PortalError as failed:
            if last is None:
                raise
            rows, error = last.rows, failed.message
        view = self._dashboard.view
        seen = _seen(view) if view else ClusterState()
        course_tiles = tiles(stored, rows, seen)
        error = error or (view.error if view else self._dashboard.error)
        without = self._board([bare(tile) for tile in course_tiles], view, error, rows)
        return _Made(self._board(course_tiles, view, error, rows), without, rows)

    def _board(
        self, course_tiles: Sequence[Tile], view: ClusterView | None, error: str, rows: Rows
    ) -> CourseBoard:
        board = CourseBoard(
            version="",
            at=0,
            error=error,
            simulated=bool(view and view.simulated),
            handout=rows.handout,
            counts=Counter(tile.state for tile in course_tiles),
            hands=sum(tile.hand_at is not None for tile in course_tiles),
            tiles=tuple(course_tiles),
        )
        mark = hashlib.blake2b(board.model_dump_json().encode(), digest_size=9).hexdigest()
        taken_at = view.taken_at if view else None
        return board.model_copy(update={"version": mark, "at": time.time(), "taken_at": taken_at})

    async def _rows(self, stored: StoredCourse) -> Rows:
        store, course = self._store, stored.name
        members, sessions, presences, helps, start = await asyncio.gather(
            store.members.of_space(course),
            store.sessions.of_space(course, time.time() - _DAY),
            store.presence.of_course(course),
            store.help.open(),
            store.starts.newest(course),
        )
        seats = await store.starts.seats(start.id) if start else []
        return Rows(
            members=members,
            sessions=sessions,
            presences=presences,
            helps=[request for request in helps if request.course == course],
            start=start,
            seats=seats,
        )


def _seen(view: ClusterView) -> ClusterState:
    nodes = view.snapshot.nodes.values()
    return ClusterState(
        view.sessions,
        view.jobs.bare,
        view.gpus,
        away=bool(view.snapshot.error),
        silent=frozenset(node.name for node in nodes if not node.responding),
    )
