"""Archives of git repositories, fetched by the rules of handouts, for sessions that unpack them as
their user: the service is no user, and writes into no folder of others."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from portal.addresses import LOOPBACK
from portal.errors import InvalidRequest, NotFound
from portal.models.course.course import Handouts

from ..settings import Courses
from .git import BRANCH, Git, private_folder
from .source_sync import REFERENCE, fetch, source_problem
from .tree import CheckedFiles, Entry, commit_text, file_lines, read, sentence

FIELD = "repository"  # of a request, for what is wrong with its address
_SECONDS = 50.0  # for a fetch, during which a page waits
_AT_ONCE = 2
_MOST_FILES = 20_000
_LARGEST = 1024 * 1024  # bytes of the file that describes a repository
_LINK = "120000"
_FORGOTTEN = 86_400.0  # seconds after which what an interrupted fetch has left is removed
_REVISION = re.compile(r"[0-9a-f]{40,64}")


class FetchedRepository(NamedTuple):
    """Repository at a ``commit``: the ``text`` of the file that describes it, a sentence on what is
    ``left_out``, and the ``archive`` of its files, in a temporary folder. ``revision``: of that,
    which git writes into it."""

    text: str
    commit: str
    revision: str
    left_out: str
    archive: Path


class RepositoryArchives:
    """Repositories that are fetched, and the archives that are kept of them."""

    def __init__(self, settings: Courses) -> None:
        self._settings = settings
        self._free = asyncio.Semaphore(_AT_ONCE)
        # No course is called so.
        self.folder = Path(settings.directory or "courses").resolve() / ".archives"

    @asynccontextmanager
    async def fetched(
        self, address: str, branch: str, described_by: str
    ) -> AsyncIterator[FetchedRepository]:
        """Yield a repository that has the file ``described_by``. ``branch``: "" for its own. Raises
        InvalidRequest, GitFailed, ConfigurationError, OSError."""
        loopback = self._settings.handouts_loopback
        if problem := source_problem(_source(address, branch), (), loopback=loopback):
            raise InvalidRequest(problem, FIELD)
        allowed = [*self._settings.internal_hosts]
        if address.startswith("http:"):  # of this machine, as source_problem has checked
            allowed += LOOPBACK
        async with self._free:
            place = await asyncio.to_thread(self._new_place)
            try:
                protocols = "https:http" if loopback else "https"
                git = Git(place / "fetched.git", self._settings.handouts_megabytes, protocols)
                await git.make()
                try:
                    await fetch(git, address, branch, _SECONDS, allowed)
                except InvalidRequest as error:
                    raise InvalidRequest(error.message, FIELD) from None
                yield await self._archived(git, described_by, place / "files.tar")
            finally:
                await asyncio.to_thread(shutil.rmtree, place, True)

    async def _archived(self, git: Git, described_by: str, archive: Path) -> FetchedRepository:
        tree = _without_links(await read(git, await git.revision(REFERENCE)))
        about = tree.files.get(described_by)
        if about is None:
            raise InvalidRequest(f"The repository has no file '{described_by}' at its root.", FIELD)
        if about.size > _LARGEST:
            raise InvalidRequest(f"'{described_by}' is larger than {_LARGEST >> 20} MB.", FIELD)
        if len(tree.files) > _MOST_FILES:
            raise InvalidRequest(f"The repository has more than {_MOST_FILES:,} files.", FIELD)
        if tree.size > git.megabytes * 1024 * 1024:
            raise InvalidRequest(
                f"The files take {tree.size >> 20} MB; the limit is {git.megabytes} MB "
                "(c.Courses.handouts_megabytes). Put large files into the folder later.",
                FIELD,
            )
        text = (await git.run("cat-file", "blob", about.blob)).decode("utf-8", "replace")
        # Without the history, and exactly the files that were checked.
        stream = commit_text(BRANCH, "Files of a repository", file_lines(tree.files.values()))
        await git.run("fast-import", "--quiet", "--force", stdin=stream)
        await git.run("archive", "--format=tar", "-o", str(archive), BRANCH, room=8)
        commit, revision = await git.revision(REFERENCE), await git.revision(BRANCH)
        return FetchedRepository(text, commit, revision, sentence(tree.left_out), archive)

    async def keep(self, fetched: FetchedRepository, name: str) -> None:
        """Keep the archive of a repository under a name, until `forget`. Raises OSError."""
        await asyncio.to_thread(fetched.archive.replace, self.place(name, fetched.revision))

    def place(self, name: str, revision: str) -> Path:
        """Return the place of an archive that is kept. Raises NotFound for no revision."""
        if not _REVISION.fullmatch(revision):
            raise NotFound("There are no files of a repository.")
        return self.folder / f"{name}-{revision}.tar"

    async def forget(self, name: str, revision: str) -> None:
        """Remove an archive: a session has unpacked it."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self.place(name, revision).unlink, missing_ok=True)

    def _new_place(self) -> Path:
        """Make a folder for one fetch; remove those that were interrupted. Raises OSError."""
        private_folder(self.folder)
        for left in self.folder.glob("fetch-*"):
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _FORGOTTEN:
                    shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix="fetch-", dir=self.folder))


def _source(address: str, branch: str) -> Handouts:
    """Return the source of handouts that has this address. Raises InvalidRequest."""
    try:
        return Handouts(kind="git", source=address, branch=branch)
    except ValueError:
        raise InvalidRequest(
            "Enter the address of a git repository, such as https://git.example.org/team/work.git, "
            "and the name of a branch, or nothing for its own.",
            FIELD,
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
