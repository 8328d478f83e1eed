"""Whose account a person may charge, from sacctmgr, cached per person.

slurmdbd takes about 0.3 s for any answer, most of it waiting (six answers on one connection, each
held back for 40 ms by TCP's delayed acknowledgement). So whoever asks while a question is under
way is asked for together with all the others, in the next one: a hundred launches are two
questions, not a hundred. When launches are to be expected, everyone is asked for beforehand.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from ..errors import InvalidRequest, SlurmRefused, SlurmUnavailable
from ..models.cluster import Association
from ..models.resources import SLURM_NAME
from . import parse, queries
from .private_data import PrivateData
from .run import SlurmRunner

# Linux login names, and the names that directories give: nothing that sacctmgr reads as syntax.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,127}\Z")
_NO_ACCOUNTING = ("not running a supported accounting_storage", "only 'accounting_storage")
_MOST = 2000
_AT_ONCE = 500  # names in one question
_EVERYONE = 1_000_000  # characters; a site whose list is longer is not asked for all of it again


_Found = tuple[Association, ...] | None


class Accounts:
    """Associations by user; None where the site has no accounting."""

    def __init__(self, runner: SlurmRunner, ttl: Callable[[], float]) -> None:
        self._runner = runner
        self._ttl = ttl
        self._known: dict[str, tuple[float, _Found]] = {}
        self._asked: dict[str, asyncio.Task[dict[str, _Found]]] = {}
        self._last: asyncio.Task[dict[str, _Found]] | None = None
        self._next: set[str] | None = None  # whom the next question will name
        self._everyone: asyncio.Task[None] | None = None
        self._everyone_at = float("-inf")
        self._too_many = False
        self._forgotten: dict[str, float] = {}
        self._names: dict[str, tuple[float, bool]] = {}  # of accounts: asked at, and whether there
        self._private = PrivateData(runner, ttl)

    def expect(self) -> None:
        """Someone will launch soon: ask for everyone now, unless that was done lately."""
        under_way = self._everyone is not None and not self._everyone.done()
        if under_way or self._too_many or time.monotonic() - self._everyone_at < self._ttl():
            return
        self._everyone_at = time.monotonic()
        self._everyone = asyncio.ensure_future(self._ask_for_everyone())

    async def _ask_for_everyone(self) -> None:
        try:
            output = await self._runner.run(queries.associations(""))
            rows = await asyncio.to_thread(parse.associations, output.stdout)
        except (SlurmRefused, SlurmUnavailable, ValueError):
            return  # said to the one who launches
        found: dict[str, list[Association]] = {}
        for row in rows:
            found.setdefault(row.user, []).append(row)
        self._too_many = len(output.stdout) > _EVERYONE or len(found) > _MOST
        if not self._too_many:
            for user, ones in found.items():
                self._keep(user, tuple(ones), self._everyone_at)

    def _keep(self, user: str, answer: _Found, asked_at: float) -> None:
        if asked_at >= self._forgotten.get(user, float("-inf")):
            self._known[user] = time.monotonic(), answer

    def forget(self, user: str) -> None:
        """See Cluster.forget. An answer to a question that was asked before counts no more."""
        if len(self._forgotten) >= _MOST:
            self._forgotten.clear()
        self._forgotten[user] = time.monotonic()
        self._known.pop(user, None)
        if user not in (self._next or ()):
            self._asked.pop(user, None)

    def known(self, user: str) -> _Found:
        """See Cluster.known_associations."""
        kept = self._known.get(user)
        return kept[1] if kept else None

    async def of(self, user: str) -> _Found:
        """See Cluster.associations."""
        if not _USER.match(user):
            raise InvalidRequest(f"{user!r} is not a login name.", field="user")
        if self._everyone is not None:
            await asyncio.wait({self._everyone}, timeout=2)
        kept = self._known.get(user)
        if kept and time.monotonic() - kept[0] < self._ttl():
            return kept[1]
        asked_at = time.monotonic()
        try:
            answer = (await asyncio.shield(self._question(user)))[user]
            if answer == ():
                await self._private.check_users()
        except SlurmUnavailable:
            if kept:
                return kept[1]
            raise
        if len(self._known) >= _MOST:
            self._known.clear()
        self._keep(user, answer, asked_at)
        return answer

    async def exists(self, account: str) -> bool | None:
        """See Cluster.has_account."""
        if not re.fullmatch(SLURM_NAME, account):
            return False
        at, there = self._names.get(account, (float("-inf"), None))
        if time.monotonic() - at < self._ttl():
            return there
        try:
            output = await self._runner.run(queries.account(account))
        except SlurmRefused as error:
            if _no_accounting(error):
                return None
            raise _unreadable(error) from None
        # sacctmgr writes and finds names in small letters.
        there = account.lower() in output.stdout.lower().split()
        if len(self._names) >= _MOST:
            self._names.clear()
        self._names[account] = time.monotonic(), there
        return there

    def _question(self, user: str) -> asyncio.Task[dict[str, _Found]]:
        """The question that names ``user``: one under way, or the next one."""
        task = self._asked.get(user)
        if task is None:
            if self._next is None or len(self._next) >= _AT_ONCE or self._last is None:
                self._next = set()
                self._last = asyncio.ensure_future(self._ask(self._next, self._last))
            self._next.add(user)
            task = self._asked[user] = self._last
        return task

    async def _ask(
        self, users: set[str], before: asyncio.Task[dict[str, _Found]] | None
    ) -> dict[str, _Found]:
        try:
            if before is not None:
                await asyncio.wait({before})
            if self._next is users:
                self._next = None  # from now on it is too late for this one
            output = await self._runner.run(queries.associations(",".join(sorted(users))))
        except SlurmRefused as error:
            if _no_accounting(error):
                return dict.fromkeys(users)
            raise _unreadable(error) from None
        finally:
            for user in users:
                self._asked.pop(user, None)
        rows: dict[str, list[Association]] = {user.lower(): [] for user in users}
        for row in parse.associations(output.stdout):
            # sacctmgr writes names in small letters unless the site has PreserveCaseUser.
            rows.setdefault(row.user.lower(), []).append(row)
        return {user: tuple(rows[user.lower()]) for user in users}


def _no_accounting(error: SlurmRefused) -> bool:
    return any(words in error.message.lower() for words in _NO_ACCOUNTING)


def _unreadable(error: SlurmRefused) -> SlurmUnavailable:
    """slurmdbd's refusal to tell the portal is no word about the person."""
    return SlurmUnavailable(f"Slurm's accounting does not tell the portal: {error.message}")
