"""Folders of projects kept as the projects are: made, archived and restored, with the rights of
their members."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from functools import partial
from typing import ClassVar, NamedTuple

from portal.errors import PortalError
from portal.models.space import SpaceState
from portal.store import Store

from ..models import ProjectMember, StoredProject
from ..place import is_folder
from ..tables import ProjectTable
from .folders import FolderRole, ProjectFolders

_AT_ONCE = 16  # calls of the program; each can walk through a large folder
_SHOWN = 5  # names in a sentence


class Wanted(NamedTuple):
    """What a folder should be: the roles of its members by name, and whether it is archived."""

    members: tuple[tuple[str, FolderRole], ...]
    archived: bool


class FolderKeeping:
    """Keeper of the folders of projects that are approved or archived. Each is brought about anew
    after a start of the service; the program changes only what differs."""

    interval: ClassVar[float] = 10.0  # seconds between two looks
    retry: ClassVar[float] = 60.0  # seconds until what failed is tried again

    def __init__(self, folders: ProjectFolders, store: Store, log: logging.Logger) -> None:
        self._folders, self._store, self._log = folders, store, log
        self._done: dict[str, Wanted] = {}
        self._under_way: dict[tuple[str, Wanted], asyncio.Task[None]] = {}
        self._failed: dict[str, float] = {}  # by the monotonic clock
        self._problems: dict[str, str] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def look(self) -> None:
        """Begin what is due. Raises StoreUnavailable."""
        if not await asyncio.to_thread(self._folders.file.exists):
            return
        table = self._store.table(ProjectTable)
        now = time.monotonic()
        for stored in await table.all(SpaceState.APPROVED, SpaceState.ARCHIVED):
            name = stored.name
            wanted = wanted_of(stored, await table.members.of_space(name))
            waits = now - self._failed.get(name, float("-inf")) < self.retry
            # A call that walks through the files does not hold up the next, which closes the folder
            # to a leaver before it waits for the files.
            key = name, wanted
            if self._done.get(name) != wanted and key not in self._under_way and not waits:
                self._under_way[key] = task = asyncio.create_task(self._keep(name, wanted))
                task.add_done_callback(partial(self._over, key))

    def _over(self, key: tuple[str, Wanted], _: asyncio.Task[None]) -> None:
        del self._under_way[key]

    async def stop(self) -> None:
        """Wait no longer for what is under way: the program ends by itself."""
        under_way = list(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def problem(self, project: str) -> str:
        """Return why the folder is not as it should be; "" if it is."""
        return self._problems.get(project, "")

    async def _keep(self, name: str, wanted: Wanted) -> None:
        async with self._slots:
            try:
                problem = await self._kept(name, wanted)
            except PortalError as error:
                self._failed[name] = time.monotonic()
                if self._problems.get(name) != error.message:
                    self._log.warning("The folder of project %s: %s", name, error.message)
                self._problems[name] = error.message
                return
        self._done[name] = wanted
        self._failed.pop(name, None)
        self._problems[name] = problem

    async def _kept(self, name: str, wanted: Wanted) -> str:
        """Bring about what is wanted; return what is left to be said. Raises PortalError."""
        folders = self._folders
        if wanted.archived:
            path = await asyncio.to_thread(folders.folder_of, name)
            with contextlib.suppress(OSError):  # the program says it better
                if not await asyncio.to_thread(is_folder, str(path)):
                    return ""  # archived before it had one
        answer = await folders.make(name, dict(wanted.members))
        if answer.archived != wanted.archived:
            answer = await (folders.archive if wanted.archived else folders.restore)(name)
        if not answer.unknown_count:
            return ""
        names = ", ".join(answer.unknown[:_SHOWN])
        more = answer.unknown_count - _SHOWN
        return f"No users of the nodes, so without the folder: {names}" + (
            f" and {more} more." if more > 0 else "."
        )


def wanted_of(stored: StoredProject, members: Iterable[ProjectMember]) -> Wanted:
    """Return what the folder of a project should be."""
    roles = sorted((member.person, FolderRole(member.role.value)) for member in members)
    return Wanted(tuple(roles), stored.state is SpaceState.ARCHIVED)
