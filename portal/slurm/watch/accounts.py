"""Accounts that a person may charge, from sacctmgr, cached per person.

slurmdbd takes about 0.3 s for any answer, most of it waiting (six responses on one connection,
each delayed for 40 ms by TCP's delayed acknowledgement). So callers that come while a query is
under way are batched into the next one: a hundred launches are two queries, not a hundred. When
launches are expected, everyone's associations are queried in advance.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable

from portal.cache import SharedAnswer, SharedAnswers
from portal.errors import InvalidRequest, SlurmRefused, SlurmUnavailable
from portal.models.cluster.cluster import Association
from portal.models.session.resources import SLURM_NAME

from .. import parse
from ..commands import queries
from ..commands.run import SlurmRunner
from .private_data import PrivateData

# Linux login names, and the names that directories give: nothing that sacctmgr reads as syntax.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,127}\Z")
_NO_ACCOUNTING = ("not running a supported accounting_storage", "only 'accounting_storage")
_MOST = 2000
_AT_ONCE = 500  # names in one query
_EVERYONE = 1_000_000  # characters; where the list is longer, it is not queried as a whole again


_Found = tuple[Association, ...] | None


class Accounts:
    """Associations by user; None if the site has no accounting."""

    def __init__(self, runner: SlurmRunner, ttl: Callable[[], float]) -> None:
        self._runner = runner
        self._people = SharedAnswers[str, _Found](
            self._of, most=_MOST, ttl=lambda _: ttl(), retry=0.0
        )
        self._names = SharedAnswers[str, bool | None](
            self._exists, ttl=lambda exists: 0.0 if exists is None else ttl(), keep=False
        )
        self._everyone = SharedAnswer(
            self._ask_for_everyone, ttl=lambda few: ttl() if few else math.inf, first=True
        )
        self._forgotten: set[str] = set()  # since everyone was queried
        self._last: asyncio.Task[dict[str, _Found]] | None = None
        self._next: set[str] | None = None  # users of the next query
        self._private = PrivateData(runner, ttl)

    def expect(self) -> None:
        """Query everyone's associations ahead of a launch, unless that was done lately."""
        self._everyone.expect()

    async def _ask_for_everyone(self) -> bool:
        """Cache everyone's associations if they are few enough; return whether they are."""
        asked_at = time.monotonic()
        self._forgotten.clear()
        try:
            output = await self._runner.run(queries.associations(""))
            rows = await asyncio.to_thread(parse.associations, output.stdout)
        except (SlurmRefused, SlurmUnavailable, ValueError):
            return True  # reported to whoever launches
        by_user: dict[str, list[Association]] = {}
        for row in rows:
            by_user.setdefault(row.user, []).append(row)
        few = len(output.stdout) <= _EVERYONE and len(by_user) <= _MOST
        for user in by_user.keys() - self._forgotten if few else ():
            self._people.for_key(user).put(tuple(by_user[user]), asked_at)
        return few

    def forget(self, user: str) -> None:
        """See Cluster.forget. The answer to a query that was sent before no longer counts."""
        if self._everyone.under_way:
            self._forgotten.add(user)
        self._people.forget(user)

    def known(self, user: str) -> _Found:
        """See Cluster.known_associations."""
        return self._people.last(user)

    async def of_user(self, user: str) -> _Found:
        """See Cluster.associations."""
        if not _USER.match(user):
            raise InvalidRequest(f"{user!r} is not a login name.", field="user")
        if self._everyone.under_way:
            await self._everyone.get(patience=2.0)
        return await self._people.for_key(user).get()

    async def _of(self, user: str) -> _Found:
        associations = (await asyncio.shield(self._question(user)))[user]
        if associations == ():
            await self._private.check_users()
        return associations

    async def exists(self, account: str) -> bool | None:
        """See Cluster.has_account."""
        return bool(re.fullmatch(SLURM_NAME, account)) and await self._names.for_key(account).get()

    async def _exists(self, account: str) -> bool | None:
        try:
            output = await self._runner.run(queries.account(account))
        except SlurmRefused as error:
            if _no_accounting(error):
                return None
            raise _unreadable(error) from None
        # sacctmgr writes and finds names in small letters.
        return account.lower() in output.stdout.lower().split()

    def _question(self, user: str) -> asyncio.Task[dict[str, _Found]]:
        """Return the next query, which includes ``user``."""
        if self._next is None or len(self._next) >= _AT_ONCE or self._last is None:
            self._next = set()
            self._last = asyncio.ensure_future(self._ask(self._next, self._last))
        self._next.add(user)
        return self._last

    async def _ask(
        self, users: set[str], before: asyncio.Task[dict[str, _Found]] | None
    ) -> dict[str, _Found]:
        try:
            if before is not None:
                await asyncio.wait({before})
            if self._next is users:
                self._next = None  # too late to join this query
            output = await self._runner.run(queries.associations(",".join(sorted(users))))
        except SlurmRefused as error:
            if _no_accounting(error):
                return dict.fromkeys(users)
            raise _unreadable(error) from None
        rows: dict[str, list[Association]] = {user.lower(): [] for user in users}
        for row in parse.associations(output.stdout):
            # sacctmgr writes names in small letters unless the site has PreserveCaseUser.
            rows.setdefault(row.user.lower(), []).append(row)
        return {user: tuple(rows[user.lower()]) for user in users}


def _no_accounting(error: SlurmRefused) -> bool:
    return any(phrase in error.message.lower() for phrase in _NO_ACCOUNTING)


def _unreadable(error: SlurmRefused) -> SlurmUnavailable:
    """Return the error for slurmdbd's refusal to answer, which says nothing about the person."""
    return SlurmUnavailable(f"The portal cannot read Slurm's accounting: {error.message}")
