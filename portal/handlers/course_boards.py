"""The live boards of courses, made once for all who watch."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from portal.courses.board import Rows, Seen, bare, tiles
from portal.errors import PortalError
from portal.models.course import KeptCourse
from portal.models.course_board import CourseBoard, Tile

if TYPE_CHECKING:
    from portal.dashboard import ClusterView

    from .parts import Parts

_AGE = 1.5  # seconds for which a board is told to all who watch
_DAY = 86400.0
_UNWATCHED = 120.0  # seconds after which a course's board is forgotten


@dataclass
class _Kept:
    at: float = float("-inf")  # by the monotonic clock
    board: CourseBoard | None = None
    asking: asyncio.Task[None] | None = None
    bare: CourseBoard | None = None
    rows: Rows = field(default_factory=Rows)


class CourseBoards:
    """The boards of all courses, each made at most every ``age`` seconds whoever watches.

    The cluster is the dashboard's, which asks Slurm by itself; the database is asked once for all
    who watch. Where it does not answer, what it said last stays, with ``error``.
    """

    def __init__(self, parts: Parts, age: float = _AGE) -> None:
        self._parts, self.age = parts, age
        self._kept: dict[str, _Kept] = {}

    async def of(self, kept: KeptCourse, *, private: bool = True) -> CourseBoard:
        """The board of a course; without ``private``, less what sessions tell of their students.
        Raises StoreUnavailable where the database has never said who is in the course."""
        now = time.monotonic()
        one = self._kept.setdefault(kept.name, _Kept())
        if now - one.at > self.age:
            if one.asking is None or one.asking.done():
                one.asking = asyncio.create_task(self._renew(kept, one))
            # Shielded: one watcher who goes away takes nobody else's answer along.
            await asyncio.shield(one.asking)
        self._forget_unwatched(now)
        assert one.board is not None and one.bare is not None
        return one.board if private else one.bare

    def forget(self, course: str) -> None:
        """Something was done: the next who asks gets a new one."""
        if course in self._kept:
            self._kept[course].at = float("-inf")

    async def _renew(self, kept: KeptCourse, one: _Kept) -> None:
        error = ""
        try:
            one.rows = await self._rows(kept)
        except PortalError as failed:
            if one.board is None:
                raise
            error = failed.message
        view = self._parts.dashboard.view
        seen = _seen(view) if view else Seen()
        made = tiles(kept, one.rows, seen)
        error = error or (view.error if view else self._parts.dashboard.error)
        one.board = self._board(made, view, error, one.rows)
        one.bare = self._board([bare(tile) for tile in made], view, error, one.rows)
        one.at = time.monotonic()

    def _board(
        self, made: Sequence[Tile], view: ClusterView | None, error: str, rows: Rows
    ) -> CourseBoard:
        board = CourseBoard(
            version="",
            at=0,
            error=error,
            simulated=bool(view and view.simulated),
            handout=rows.handout,
            counts=Counter(tile.state for tile in made),
            hands=sum(tile.hand_at is not None for tile in made),
            tiles=tuple(made),
        )
        mark = hashlib.blake2b(board.model_dump_json().encode(), digest_size=9).hexdigest()
        taken_at = view.taken_at if view else None
        return board.model_copy(update={"version": mark, "at": time.time(), "taken_at": taken_at})

    async def _rows(self, kept: KeptCourse) -> Rows:
        store, course = self._parts.store, kept.name
        members, sessions, presences, helps, start = await asyncio.gather(
            store.members.of(course),
            store.sessions.of_course(course, time.time() - _DAY),
            store.presence.of(course),
            store.help.open(),
            store.starts.newest(course),
        )
        seats = await store.starts.seats(start.id) if start else []
        return Rows(
            members=members,
            sessions=sessions,
            presences=presences,
            helps=[one for one in helps if one.course == course],
            start=start,
            seats=seats,
        )

    def _forget_unwatched(self, now: float) -> None:
        for name, one in list(self._kept.items()):
            if now - one.at > _UNWATCHED and (one.asking is None or one.asking.done()):
                del self._kept[name]


def _seen(view: ClusterView) -> Seen:
    nodes = view.snapshot.nodes.values()
    return Seen(
        view.sessions,
        view.jobs.bare,
        view.gpus,
        away=bool(view.snapshot.error),
        silent=frozenset(node.name for node in nodes if not node.responding),
    )
