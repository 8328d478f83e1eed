"""Forks: projects from git repositories that have a ``project.yaml``, by the rules of handouts.

The service is no user, and writes into no folder of a project: it keeps the files as one archive,
which a session of an owner unpacks as its user (portal_session/project_files.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from portal.addresses import LOOPBACK
from portal.courses.files.git import BRANCH, Git, private_folder
from portal.courses.files.source_sync import REFERENCE, fetch, source_problem
from portal.courses.files.tree import CheckedFiles, Entry, commit_text, file_lines, read, sentence
from portal.courses.settings import Courses
from portal.errors import InvalidRequest, NotFound
from portal.models.course.course import Handouts

from .document import LONGEST, ProjectFile, read_project

FILE = "project.yaml"  # at the root of a repository
_SECONDS = 50.0  # for a fetch, during which a page waits
_AT_ONCE = 2
_MOST_FILES = 20_000
_LINK = "120000"
_FORGOTTEN = 86_400.0  # seconds after which what an interrupted fork has left is removed
_REVISION = re.compile(r"[0-9a-f]{40,64}")


class Forked(NamedTuple):
    """Project of a repository, at this ``commit``. ``archive``: its files, in a temporary folder;
    ``revision``: of the archive."""

    file: ProjectFile
    commit: str
    revision: str
    left_out: str
    archive: Path


class Forks:
    """Repositories that are fetched, and the files of projects that were."""

    def __init__(self, settings: Courses) -> None:
        self._settings = settings
        self._free = asyncio.Semaphore(_AT_ONCE)
        # No course is called so.
        self.folder = Path(settings.directory or "courses").resolve() / ".projects"

    @asynccontextmanager
    async def fetched(self, address: str, branch: str, name: str | None) -> AsyncIterator[Forked]:
        """Yield the project of a repository. ``branch``: "" for its own; ``name``: of the new
        project, None for the file's. Raises InvalidRequest, GitFailed, ConfigurationError."""
        source = _source(address, branch)
        loopback = self._settings.handouts_loopback
        if problem := source_problem(source, (), loopback=loopback):
            raise InvalidRequest(problem, "repository")
        allowed = [*self._settings.internal_hosts]
        if address.startswith("http:"):  # of this machine, as source_problem has checked
            allowed += LOOPBACK
        async with self._free:
            place = await asyncio.to_thread(self._new_place)
            try:
                protocols = "https:http" if loopback else "https"
                git = Git(place / "fork.git", self._settings.handouts_megabytes, protocols)
                await git.make()
                try:
                    await fetch(git, address, branch, _SECONDS, allowed)
                except InvalidRequest as error:
                    raise InvalidRequest(error.message, "repository") from None
                yield await self._read(git, place / "files.tar", name)
            finally:
                await asyncio.to_thread(shutil.rmtree, place, True)

    async def _read(self, git: Git, archive: Path, name: str | None) -> Forked:
        tree = _without_links(await read(git, await git.revision(REFERENCE)))
        of_file = tree.files.get(FILE)
        if of_file is None:
            raise InvalidRequest(f"The repository has no file '{FILE}' at its root.", "repository")
        if of_file.size > 4 * LONGEST:
            raise InvalidRequest(f"'{FILE}' is longer than {LONGEST:,} characters.", "repository")
        if len(tree.files) > _MOST_FILES:
            raise InvalidRequest(
                f"The repository has more than {_MOST_FILES:,} files.", "repository"
            )
        if tree.size > git.megabytes * 1024 * 1024:
            raise InvalidRequest(
                f"The files take {tree.size >> 20} MB; the limit is {git.megabytes} MB "
                "(c.Courses.handouts_megabytes). Put large files into the folder later.",
                "repository",
            )
        text = (await git.run("cat-file", "blob", of_file.blob)).decode("utf-8", "replace")
        try:
            file = await asyncio.to_thread(read_project, text, name=name)
        except InvalidRequest as error:
            raise InvalidRequest(f"'{FILE}': {error.message}", "repository") from None
        # Without the history, and exactly the files that were checked.
        stream = commit_text(BRANCH, "Files of a project", file_lines(tree.files.values()))
        await git.run("fast-import", "--quiet", "--force", stdin=stream)
        await git.run("archive", "--format=tar", "-o", str(archive), BRANCH, room=8)
        commit = await git.revision(REFERENCE)
        revision = await git.revision(BRANCH)
        return Forked(file, commit, revision, sentence(tree.left_out), archive)

    async def keep(self, forked: Forked, project: str) -> None:
        """Keep the files of a project that was created, until a session has them. Raises
        OSError."""
        await asyncio.to_thread(os.replace, forked.archive, self.archive(project, forked.revision))

    def archive(self, project: str, revision: str) -> Path:
        """Return the place of a project's files. Raises NotFound for no revision."""
        if not _REVISION.fullmatch(revision):
            raise NotFound("This project has no files of a repository.")
        return self.folder / f"{project}-{revision}.tar"

    async def forget(self, project: str, revision: str) -> None:
        """Remove the files of a project: its folder has them."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self.archive(project, revision).unlink, missing_ok=True)

    def _new_place(self) -> Path:
        """Make a folder for one fork; remove those that were interrupted. Raises OSError."""
        private_folder(self.folder)
        for left in self.folder.glob("fork-*"):
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _FORGOTTEN:
                    shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix="fork-", dir=self.folder))


def _source(address: str, branch: str) -> Handouts:
    """Return the source of handouts that has this address. Raises InvalidRequest."""
    try:
        return Handouts(kind="git", source=address, branch=branch)
    except ValueError:
        raise InvalidRequest(
            "Enter the address of a git repository, such as https://git.example.org/team/work.git, "
            "and the name of a branch, or nothing for its own.",
            "repository",
        ) from None


def _without_links(tree: CheckedFiles) -> CheckedFiles:
    """Return a tree without links, which may mean something else in another folder."""
    files: dict[str, Entry] = {}
    left_out = [*tree.left_out]
    for path, entry in tree.files.items():
        if entry.mode == _LINK:
            left_out.append(f"'{path[:100]}' is a link")
        else:
            files[path] = entry
    return CheckedFiles(files, tuple(left_out))
