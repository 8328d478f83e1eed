"""Folders of projects: whether they exist, and the room on their file systems."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from portal.cache import SharedAnswers

from ..bodies import FolderItem
from .place import folder_path, is_folder

_AGE = 4.0  # seconds for which an answer is fresh: a page asks every 5
_PATIENCE = 2.0  # seconds that a page waits for the file system
_THREADS = 4  # a file system that is away holds these, and not those that all others need
_CEPH = ("ceph.quota.max_bytes", "ceph.dir.rbytes")  # ceph(8): attributes of its directories


class FolderRooms:
    """Reader of the folders below ``root`` ("": the site has none)."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._threads = ThreadPoolExecutor(_THREADS, "project-folder")
        self._answers = SharedAnswers[str, FolderItem](
            self._of, most=500, ttl=_AGE, patience=_PATIENCE, keep=False
        )

    async def of_project(self, name: str) -> FolderItem:
        """Return a project's folder. ``exists`` is None if its file system does not answer."""
        path = folder_path(self._root, name)
        if not path:
            return FolderItem(path="", exists=False)
        try:
            return await self._answers.for_key(path).get()
        except TimeoutError:
            return FolderItem(path=path, exists=None)

    async def _of(self, path: str) -> FolderItem:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, read_folder, path, self._root)


def read_folder(path: str, root: str) -> FolderItem:
    """Return the folder at ``path`` with the room that is left in it. Blocks."""
    try:
        if not is_folder(path):
            return FolderItem(path=path, exists=False)
        there = os.statvfs(path)
    except OSError:
        return FolderItem(path=path, exists=None)
    size, free = there.f_blocks * there.f_frsize, there.f_bavail * there.f_frsize
    quota = _quota_of_ceph(path)
    if quota is not None:
        limit, used = quota
        return FolderItem(
            path=path, exists=True, size=size, free=min(free, max(0, limit - used)), quota=limit
        )
    return FolderItem(
        path=path, exists=True, size=size, free=free, quota=_quota_of_blocks(path, root, size)
    )


def _quota_of_blocks(path: str, root: str, size: int) -> int | None:
    """Return the quota of a directory on XFS or ext4, which give it as the size of its file system
    (statfs of a directory of a project with a quota); None without one."""
    try:
        if os.lstat(path).st_dev != Path(root).stat().st_dev:
            return None
        whole = os.statvfs(root)
    except OSError:
        return None
    return size if size < whole.f_blocks * whole.f_frsize else None


def _quota_of_ceph(path: str) -> tuple[int, int] | None:
    """Return a directory's quota on CephFS and the bytes in it; None without one."""
    try:
        limit, used = (int(os.getxattr(path, name, follow_symlinks=False)) for name in _CEPH)
    except (OSError, ValueError):
        return None
    return (limit, used) if limit else None
