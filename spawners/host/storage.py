"""Free space of home, scratch and data folders, queried without ever blocking the Hub."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from traitlets import Dict, Float, List
from traitlets.config import LoggingConfigurable

from portal.setting import setting

from .blocking import Blocking, StillRunning


@dataclass(frozen=True)
class StorageArea:
    """Folder with its space. Sizes in bytes, None if unknown."""

    title: str
    path: str
    free_bytes: int | None = None
    total_bytes: int | None = None
    answers: bool = True  # False: the file system did not answer in time
    missing: bool = False  # the path does not exist
    required: bool = False  # a session cannot start without it (the home)
    shown: str = ""  # the path as its owner writes it: "~/data"

    @property
    def used_percent(self) -> int | None:
        """Percentage in use, 0 to 100; None if the size is unknown."""
        if not self.total_bytes or self.free_bytes is None:
            return None
        return round(100 * (1 - self.free_bytes / self.total_bytes))


def query_file_system(title: str, path: str, required: bool = False) -> StorageArea:
    """Query the file system behind ``path``. Blocks for as long as the file system does."""
    try:
        Path(path).stat()
        stats = os.statvfs(path)
    except (FileNotFoundError, NotADirectoryError):
        return StorageArea(title, path, missing=True, required=required)
    except OSError:
        # Not allowed to look, or a stale mount: nothing is known about the space.
        return StorageArea(title, path, answers=False, required=required)
    return StorageArea(
        title,
        path,
        free_bytes=stats.f_bavail * stats.f_frsize,
        total_bytes=stats.f_blocks * stats.f_frsize,
        required=required,
    )


class Storage(LoggingConfigurable):
    """Folders that the launch page shows, with their free space."""

    areas = setting(
        List(Dict(), default_value=[{"title": "Home", "path": "{home}", "required": True}]),
        """Folders to show. Each has a `title` and a `path`, in which {username} and {home} are
        replaced. If `required` is true (default: false), sessions cannot start without the folder.
        Folders that do not exist and are not required are hidden.""",
        """c.Storage.areas = [
            {"title": "Home", "path": "{home}", "required": True},
            {"title": "Scratch", "path": "/scratch/{username}"},
            {"title": "Data", "path": "/data"},
        ]""",
    )
    timeout = setting(
        Float(1.0), "Seconds that the page waits for the file systems.", "c.Storage.timeout = 2"
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._blocking = Blocking()

    async def query_areas(self, username: str, home: str) -> list[StorageArea]:
        """Return the areas of one person, in configured order; all are queried at once."""
        folders = []
        for area in self.areas:
            path = str(area["path"]).replace("{username}", username).replace("{home}", home)
            folders.append((str(area["title"]), path, bool(area.get("required", False))))
        areas = await asyncio.gather(*(self._ask(*folder) for folder in folders))
        return [
            replace(area, shown=_shown(area.path, home))
            for area in areas
            if area.required or not area.missing
        ]

    async def _ask(self, title: str, path: str, required: bool) -> StorageArea:
        try:
            return await self._blocking.call(
                path, lambda: query_file_system(title, path, required), self.timeout
            )
        except StillRunning:
            self.log.warning("Storage: %s does not answer within %s s", path, self.timeout)
            return StorageArea(title, path, answers=False, required=required)


def _shown(path: str, home: str) -> str:
    rest = path.removeprefix(home.rstrip("/"))
    return f"~{rest}" if rest != path and rest[:1] in ("", "/") else path
