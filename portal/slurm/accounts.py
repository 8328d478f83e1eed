"""Whose account a person may charge, from sacctmgr, cached per person."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from ..errors import InvalidRequest, SlurmRefused, SlurmUnavailable
from ..models.cluster import Association
from . import parse, queries
from .run import SlurmRunner

# Linux login names, and the names that directories give: nothing that sacctmgr reads as syntax.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,127}\Z")
_NO_ACCOUNTING = ("not running a supported accounting_storage", "only 'accounting_storage")
_MOST = 2000


class Accounts:
    """Associations by user; None where the site has no accounting."""

    def __init__(self, runner: SlurmRunner, ttl: Callable[[], float]) -> None:
        self._runner = runner
        self._ttl = ttl
        self._known: dict[str, tuple[float, tuple[Association, ...] | None]] = {}
        self._asked: dict[str, asyncio.Task[tuple[Association, ...] | None]] = {}

    async def of(self, user: str) -> tuple[Association, ...] | None:
        """See Cluster.associations."""
        if not _USER.match(user):
            raise InvalidRequest(f"{user!r} is not a login name.", field="user")
        kept = self._known.get(user)
        if kept and time.monotonic() - kept[0] < self._ttl():
            return kept[1]
        task = self._asked.get(user)
        if task is None:
            task = self._asked[user] = asyncio.ensure_future(self._ask(user))
            task.add_done_callback(lambda _: self._asked.pop(user, None))
        try:
            answer = await asyncio.shield(task)
        except SlurmUnavailable:
            if kept:
                return kept[1]
            raise
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[user] = time.monotonic(), answer
        return answer

    async def _ask(self, user: str) -> tuple[Association, ...] | None:
        try:
            output = await self._runner.run(queries.associations(user))
        except SlurmRefused as error:
            if any(words in error.message.lower() for words in _NO_ACCOUNTING):
                return None
            raise
        return parse.associations(output.stdout)
