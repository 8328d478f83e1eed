"""Accounts and homes of many people on this machine. Looked up in a thread: homes are on network
file systems, accounts come from a directory."""

from __future__ import annotations

import asyncio
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from portal.cache import SharedAnswer

_PATIENCE = 15.0  # seconds


@dataclass(frozen=True)
class Homes:
    """People who have no account, and people whose home does not exist; ``error``: why that is
    unknown, "" if it is known."""

    no_account: tuple[str, ...] = ()
    no_home: tuple[str, ...] = ()
    error: str = ""


class HomeFinder:
    """Lookup of one list at a time: a file system that hangs holds one thread, not all."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._look = SharedAnswer[Homes](ttl=0.0, keep=False)

    async def find_homes(self, people: Sequence[str]) -> Homes:
        """Look up the accounts and homes of ``people``."""
        if self._look.under_way:
            return Homes(error="An earlier check of the home directories is still running.")
        try:
            look = asyncio.to_thread(_look, people)
            return await self._look.get(lambda: look, patience=self._patience)
        except TimeoutError:
            return Homes(error=f"The home directories took longer than {self._patience:g} s.")


def _look(people: Sequence[str]) -> Homes:
    no_account, no_home, seen = [], [], 0
    for person in people:
        try:
            home = pwd.getpwnam(person).pw_dir
        except (KeyError, ValueError, UnicodeEncodeError):
            no_account.append(person)
            continue
        try:
            if not stat.S_ISDIR(Path(home).stat().st_mode):
                no_home.append(person)
                continue
        except (FileNotFoundError, NotADirectoryError):
            no_home.append(person)
            continue
        except OSError:
            pass  # it is there, and not for this account to see
        seen += 1
    if people and not seen and len(no_account) == len(people):
        return Homes(error="The portal's machine knows none of these accounts.")
    if people and not seen and no_home:
        return Homes(
            no_account=tuple(no_account),
            error="The portal's machine sees none of these home directories.",
        )
    return Homes(tuple(no_account), tuple(no_home))
