"""Members of a course that Slurm accepts in its reservations."""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Sequence

from portal.errors import Unavailable
from portal.models.course.course import StoredCourse
from portal.slurm.commands.run import own_account

from ..context import CourseContext
from .plan import some

_BELIEVED = 600.0  # seconds for which the lookup of an account counts


class Attendees:
    """Members of courses that Slurm knows; who has an account is looked up now and then."""

    def __init__(self, context: CourseContext) -> None:
        self._context = context
        self._accounts: dict[str, tuple[float, bool]] = {}

    async def of_course(self, stored: StoredCourse) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the users for the course's reservations, and sentences on who is left out: one
        unknown user would have the reservation refused for all."""
        names = [
            member.person for member in await self._context.store.members.of_space(stored.name)
        ]
        known = await self._with_account(names)
        left = [name for name in names if name not in known]
        users: list[str] = []
        without: list[str] = []
        answers = await asyncio.gather(
            *(self._context.cluster.associations(name) for name in known), return_exceptions=True
        )
        for name, answer in zip(known, answers, strict=True):
            account = stored.course.account
            has_answer = not isinstance(answer, BaseException) and answer is not None
            rows = answer if has_answer else ()
            fits = not has_answer or any(not account or row.account == account for row in rows)  # type: ignore[union-attr]
            (users if fits else without).append(name)
        notes = []
        if left:
            notes.append(f"Not included, no account on the cluster: {some(left)}.")
        if without:
            named = stored.course.account
            why = f"no access to the Slurm account '{named}'" if named else "no Slurm account"
            notes.append(f"Not included, {why}: {some(without)}.")
        return tuple(users), tuple(notes)

    async def _with_account(self, names: Sequence[str]) -> list[str]:
        old = time.monotonic() - _BELIEVED
        unknown = [name for name in names if self._accounts.get(name, (old - 1, False))[0] < old]

        def read_accounts() -> dict[str, bool]:
            accounts = {name: _is_account(name) for name in unknown}
            if not all(accounts.values()) and not own_account()[1]:
                raise Unavailable(
                    "Accounts cannot be looked up: the portal's machine does not know the portal's "
                    "own account either. An admin can check with 'getent passwd' there."
                )
            return accounts

        if unknown:
            accounts = await asyncio.to_thread(read_accounts)
            self._accounts |= {
                name: (time.monotonic(), exists) for name, exists in accounts.items()
            }
        return [name for name in names if self._accounts[name][1]]


def _is_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True
