"""Gate of a course's exchange: a folder of the Hub's account, whose POSIX ACL (acl(5)) admits the
members of the course. Inside is the exchange, open to all, as nbgrader wants it (0777).

Everyone in a course writes to its exchange under their own account, the portal is not root, and
there is no Unix group for a course. The path of the folder is no secret: it is in
/proc/PID/mountinfo of each session, which everyone on the node may read.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import pwd
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal import acl
from portal.errors import ConfigurationError, NotFound
from portal.store import Store

_PARENT = 0o711  # may be traversed, but not listed
_OPEN = 0o1777  # everyone inside may add, and remove what is theirs
INSIDE = "exchange"  # the exchange inside the gate
_ALL, _ENTER = 0o7, 0o5


def folder_of(directory: Path, course: str) -> Path:
    """Return the gate of the course's exchange below ``directory``, created if missing, closed to
    all but its owner and those whom ``admit`` let in. Blocks. Raises OSError, acl.NoAcls."""
    directory.mkdir(parents=True, exist_ok=True)
    if directory.stat().st_mode & 0o7777 != _PARENT:
        directory.chmod(_PARENT)
    with _locked(directory):  # a whole class launches at once
        folder = directory / course
        if not folder.exists():
            folder.mkdir(mode=0o700)
            try:
                _let_in(folder, ())
            except acl.NoAcls:
                folder.rmdir()
                raise
        inside = folder / INSIDE
        if not inside.exists():
            before = [
                path for path in sorted(directory.glob(f"{course}.*")) if not path.is_symlink()
            ]
            if before:  # of an earlier version: a secret name, open to all who knew it
                before[0].rename(inside)
                before[0].symlink_to(inside.relative_to(directory))  # for pending jobs
            else:
                inside.mkdir()
            inside.chmod(_OPEN)
        return folder


def admit(folder: Path, uid: int) -> None:
    """Let an account in. Blocks. Raises OSError, acl.NoAcls."""
    with _locked(folder):
        admitted = acl.others_of(folder)
        if uid not in admitted and uid != folder.stat().st_uid:
            _let_in(folder, admitted | {uid})


def expel(folder: Path, uids: Collection[int]) -> None:
    """Keep accounts out from now on; a session that has the exchange mounted keeps it until it is
    stopped (portal/courses/roster/unenrol.py). Blocks. Raises OSError."""
    with _locked(folder):
        admitted = acl.others_of(folder)
        if admitted & set(uids):
            _let_in(folder, admitted - set(uids))


def _let_in(folder: Path, uids: Collection[int]) -> None:
    acl.give(folder, _ALL, dict.fromkeys(uids, _ENTER))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder, since the Hub lets people in while the service keeps others out."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@dataclass
class Exchanges:
    """Removal of former members from the exchanges; the Hub admits members as they launch."""

    store: Store
    directory: str
    log: logging.Logger | logging.LoggerAdapter[Any]
    interval: float = 10.0

    async def run_due(self, now: float) -> None:
        """Compare each exchange with its course's roster. Raises StoreUnavailable,
        ConfigurationError."""
        if not self.directory:
            return
        try:
            inside = await asyncio.to_thread(_people_in, Path(self.directory))
            for folder, people in inside.items():
                members = await self._members(folder.name) if people else set()
                gone = {uid for uid, name in people.items() if name and name not in members}
                if gone:
                    self.log.info(
                        "%d accounts lose access to the exchange of %s", len(gone), folder.name
                    )
                    await asyncio.to_thread(expel, folder, gone)
        except OSError as error:
            raise ConfigurationError(
                f"The exchange in '{self.directory}' cannot be updated: {error.strerror}."
            ) from None

    async def _members(self, course: str) -> set[str]:
        try:
            await self.store.courses.get(course)
        except NotFound:
            return set()
        return {member.person for member in await self.store.members.of_space(course)}


def _people_in(directory: Path) -> dict[Path, dict[int, str]]:
    """Return who may enter each exchange, by uid; "" is the name of an unknown uid."""
    if not directory.is_dir():
        return {}
    with os.scandir(directory) as entries:
        # No course's name has a dot in it; this account cannot list another's folder.
        folders = [
            Path(folder.path)
            for folder in entries
            if "." not in folder.name and folder.is_dir(follow_symlinks=False)
        ]
    return {folder: {uid: _name(uid) for uid in acl.others_of(folder)} for folder in folders}


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
