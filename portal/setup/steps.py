"""Steps of a plan: each knows whether it is needed, shows what it does, and does it."""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portal.errors import ConfigurationError, Conflict

from .journal import Journal, Kept, beside, put, remove
from .place import Place, ask


class Step(ABC):
    """Step of a plan. ``id``: its key in the journal; ``then``: what follows if it changes
    something."""

    def __init__(self, id: str, then: tuple[str, ...] = ()) -> None:
        self.id, self.then = id, then

    @abstractmethod
    def needed(self, place: Place, journal: Journal) -> bool:
        """Return True if something is to be changed. Raises Conflict if that must not be."""

    @abstractmethod
    def show(self, place: Place) -> list[str]:
        """Return the lines of the plan about it."""

    @abstractmethod
    def apply(self, place: Place, journal: Journal) -> None:
        """Do it. Raises PortalError, OSError."""


class Folder(Step):
    """Folder with a mode and an owner. Folders above it are made as root's, as mkdir does.
    ``strict``: one that is there gets both; else it stays as the site has it."""

    def __init__(self, path: str, mode: int, owner: str = "root", *, strict: bool = False) -> None:
        super().__init__(f"folder:{path}")
        self.path, self.mode, self.owner, self.strict = path, mode, owner, strict

    def needed(self, place: Place, journal: Journal) -> bool:
        path, numbers = place.path(self.path), place.numbers(self.owner, self.owner)
        if not path.is_dir():
            if path.exists() or path.is_symlink():
                raise Conflict(f"{path} is not a folder. Move it away, or answer another one.")
            return True
        if not self.strict:
            return False
        if path.is_symlink():
            raise Conflict(f"{path} is a link. Answer the folder that it leads to.")
        status = path.stat()
        return (status.st_uid, status.st_gid) != numbers or status.st_mode & 0o7777 != self.mode

    def show(self, place: Place) -> list[str]:
        return [f"folder   {self.path}  {self.mode:04o} {self.owner}:{self.owner}"]

    def apply(self, place: Place, journal: Journal) -> None:
        path = place.path(self.path)
        above = next(folder for folder in path.parents if folder.is_dir())
        made = [str(path)] if not path.is_dir() else []
        made += [str(folder) for folder in path.parents if folder not in (above, *above.parents)]
        status = path.stat() if path.is_dir() else None
        before = [status.st_mode & 0o7777, status.st_uid, status.st_gid] if status else None
        known = journal.entries.get(self.id, {}).get("made", [])
        journal.begin(
            self.id,
            {"kind": "folder", "path": str(path), "made": known or made, "before": before},
            self.then,
        )
        new = path if path.is_dir() else beside(path)
        if new != path:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_folder(new)
            new.mkdir(mode=0o700)  # fails for a link that somebody put there
        # A link is not followed: whoever may write beside it could have put one there meanwhile.
        descriptor = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchown(descriptor, *owned(place, self.owner))
            os.fchmod(descriptor, self.mode)
        except PermissionError:
            raise ConfigurationError(
                f"{path} cannot be given to {self.owner}: root has no rights on that file system. "
                f"Make it where root has them: install -d -o {self.owner} -g {self.owner} -m "
                f"{self.mode:04o} {self.path}"
            ) from None
        finally:
            os.close(descriptor)
        if new != path:
            new.rename(path)


class File(Step):
    """File with a content, a mode and an owner.

    ``check``: a command that gets the file's path and must succeed before it takes its place.
    ``secret``: the content is not shown. ``addition``: the content is that of a file of the site's
    with something added, so that what is there need not be setup's. What ``then`` reloads is tested
    later, so the journal keeps its former content.
    """

    def __init__(
        self,
        path: str,
        content: str,
        mode: int = 0o644,
        owner: str = "root",
        *,
        check: list[str] | None = None,
        secret: bool = False,
        addition: bool = False,
        then: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"file:{path}", then)
        self.path, self.content, self.mode, self.owner = path, content, mode, owner
        self.check, self.secret, self.addition = check, secret, addition
        self.replace = False

    def needed(self, place: Place, journal: Journal) -> bool:
        path = place.path(self.path)
        now, numbers = Kept.at(path), place.numbers(self.owner, self.owner)
        if now is None:
            return True
        if now.content == self.content.encode():
            return (now.mode, (now.uid, now.gid)) != (self.mode, numbers)
        if not (self.replace or self.addition) and is_foreign(now, journal.entries.get(self.id)):
            known = self.id in journal.entries
            raise Conflict(
                f"{path} was {'edited since setup wrote it' if known else 'not written by setup'}: "
                f"it is left as it is. Move it away, or replace it: --replace={self.path}"
            )
        return True

    def show(self, place: Place) -> list[str]:
        now = Kept.at(place.path(self.path))
        title = f"file     {self.path}  {self.mode:04o} {self.owner}:{self.owner}"
        if self.secret:
            return [f"{title}  (a secret: its content is not shown)"]
        old = now.content.decode(errors="replace").splitlines() if now else []
        diff = list(difflib.unified_diff(old, self.content.splitlines(), lineterm="", n=2))[2:]
        return [title, *(f"    {line}" for line in diff if not line.startswith("@@") or now)]

    def apply(self, place: Place, journal: Journal) -> None:
        path = place.path(self.path)
        now = Kept.at(path)
        new = Kept(self.content.encode(), self.mode, *owned(place, self.owner))
        if self.check:
            self._checked(path, new)
        known = journal.entries.get(self.id)
        if known and now and now.hash not in hashes(known):
            # Replaced on demand: the newest that is not setup's own is what undo brings back.
            del journal.entries[self.id]
            known = None
        # Until the new content is in its place, setup's former one is there.
        former = [now.hash] if known and now else []
        before = now.as_json() if now else None
        hashes_now = [new.hash, *former]
        entry = {"kind": "file", "path": str(path), "hashes": hashes_now, "before": before}
        if any(action.startswith("reload ") for action in self.then):
            entry["former"] = before
        journal.begin(self.id, entry, self.then)
        put(path, new)

    def _checked(self, path: Path, new: Kept) -> None:
        """Check the content in a file beside its place. Raises ConfigurationError."""
        trial = path.with_name(f".{path.name}.setup-check")
        try:
            put(trial, new)
            answer = ask([*(self.check or []), str(trial)])
        finally:
            remove(trial)
        if not answer.good:
            raise ConfigurationError(
                f"{self.path} would not be valid, so it was not written: {answer.words}"
            )


class Command(Step):
    """Command that is run unless ``done`` says that nothing is left to do. ``undo``: the command
    that takes it back, if there is one."""

    def __init__(
        self,
        id: str,
        argv: list[str],
        done: Callable[[], bool],
        *,
        undo: list[str] | None = None,
        why: str = "",
        then: tuple[str, ...] = (),
        **variables: str,
    ) -> None:
        super().__init__(f"command:{id}", then)
        self.argv, self.done, self.undo, self.why = argv, done, undo, why
        self.variables = variables

    def needed(self, place: Place, journal: Journal) -> bool:
        return not self.done()

    def show(self, place: Place) -> list[str]:
        return [f"command  {shlex.join(self.argv)}{f'  # {self.why}' if self.why else ''}"]

    def apply(self, place: Place, journal: Journal) -> None:
        entry = {"kind": "command", "undo": self.undo, "variables": self.variables}
        journal.begin(self.id, entry, self.then)
        answer = ask(self.argv, 120, **self.variables)
        if not answer.good and not self.done():
            raise ConfigurationError(f"{shlex.join(self.argv)} has failed: {answer.words}")


def owned(place: Place, owner: str) -> tuple[int, int]:
    """Return the numbers of an account and its group. Raises ConfigurationError."""
    numbers = place.numbers(owner, owner)
    if numbers is None:
        raise ConfigurationError(f"The account {owner}, or its group {owner}, does not exist.")
    return numbers


def is_foreign(now: Kept, entry: dict[str, Any] | None) -> bool:
    """Return True if the file is neither as setup wrote it nor as it was before."""
    return entry is None or now.hash not in hashes(entry)


def hashes(entry: dict[str, Any]) -> set[str]:
    """Return the hashes of what setup wrote, and of what was there before."""
    before = entry.get("before")
    return {*entry["hashes"], *([Kept.of_json(before).hash] if before else [])}


def remove_folder(path: Path) -> bool:
    """Remove a folder if it is empty; return whether it is gone."""
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()
