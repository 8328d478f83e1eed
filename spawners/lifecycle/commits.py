"""Single commit for all sessions that have something to store at about the same moment.

JupyterHub works on its database from the event loop, so a commit blocks the whole Hub until the
disk has it (SQLite: several fsync, 2 to 20 ms). A hundred launches at once would add some hundred
commits to JupyterHub's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

GATHER = 0.01  # seconds in which others can join


class Commits:
    """Writes that wait for the next commit of one database session."""

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []
        self._next: asyncio.Task[None] | None = None

    async def store(self, db: Any, write: Callable[[], None]) -> None:
        """Call ``write`` (which changes ORM objects of ``db``) and return when it is committed."""
        self._writes.append(write)
        if self._next is None:
            self._next = asyncio.ensure_future(self._commit(db))
        # Shielded: a caller that goes away does not take the others' commit with it.
        await asyncio.shield(self._next)

    async def _commit(self, db: Any) -> None:
        await asyncio.sleep(GATHER)
        writes, self._writes, self._next = self._writes, [], None
        for write in writes:
            write()
        db.commit()
