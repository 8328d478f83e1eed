"""Handouts of courses: a repository of the service's own for each course, which combines the
source's files and those that its staff hands out from the page, revision by revision.

Sessions get each revision as one file, a git bundle, and nothing else of the repository.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portal.addresses import LOOPBACK
from portal.errors import InvalidRequest, NotFound, PortalError
from portal.models.course.course import Handouts as Source
from portal.models.course.course import StoredCourse
from portal.models.course.files import HandoutFile, HandoutState
from portal.models.course.live import HandoutRevision
from portal.models.space import SpaceState
from portal.store import Store

from ..definition.calendar import meetings
from ..settings import Courses
from .git import BRANCH, Git, private_folder
from .paths import problem_of
from .source_sync import REFERENCE, copy, fetch, source_problem
from .tree import CheckedFiles, commit_text, file_lines, over, read, sentence, write_file

_UPLOADS = "refs/portal/uploads"
_NEXT = "refs/portal/next"
_HOUR = 3600.0
_LOOK = 60.0  # seconds between two looks at which courses are due
_AT_ONCE = 4  # courses that are fetched at the same time
_CHUNK = 1024 * 1024


@dataclass
class _Tried:
    """Result of the last attempt to fetch a source."""

    source: Source
    at: float
    problem: str = ""
    left_out: str = ""


@dataclass
class CourseHandouts:
    """Handouts of courses; one instance a service. Use of the store raises StoreUnavailable."""

    store: Store
    settings: Courses
    log: logging.Logger
    clock: Callable[[], float] = time.time
    _newest: dict[str, str] | None = None
    _tried: dict[str, _Tried] = field(default_factory=dict)
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    _files: dict[str, tuple[str, HandoutState]] = field(default_factory=dict)
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _looked_at: float = float("-inf")

    # -- what sessions ask ---------------------------------------------------------------------

    async def newest(self, course: str) -> str:
        """Return the revision that everyone in the course should have; "" if there is none."""
        if self._newest is None:
            self._newest = await self.store.handouts.newest()
        return self._newest.get(course, "")

    async def bundle(self, course: str) -> tuple[str, Path]:
        """Return the newest revision and its bundle. Raises NotFound, GitFailed."""
        revision = await self.newest(course)
        if not revision:
            raise NotFound("This course has not handed out any files yet.")
        path = self._bundle(course, revision)
        if not await asyncio.to_thread(path.exists):
            async with self._locks[course]:
                await self._write_bundle(await self._git(course), course, revision)
        return revision, path

    # -- what the staff does -------------------------------------------------------------------

    async def state(self, stored: StoredCourse) -> HandoutState:
        """Return what is handed out now. Raises GitFailed."""
        revision = await self.newest(stored.name)
        known, state = self._files.get(stored.name, ("", HandoutState()))
        if revision and known != revision:
            async with self._locks[stored.name]:
                state = await self._state(stored.name, revision)
            self._files[stored.name] = revision, state
        tried = self._tried.get(stored.name)
        revisions = tuple(await self.store.handouts.of_course(stored.name))
        update: dict[str, Any] = {"revision": revision, "revisions": revisions}
        if tried is not None:
            update |= {"problem": tried.problem, "left_out": tried.left_out}
            update["problem_at" if tried.problem else "fetched_at"] = tried.at
        return state.model_copy(update=update)

    async def refresh(self, stored: StoredCourse, by: str) -> str:
        """Fetch the course's source; return the newest revision. Raises InvalidRequest, NotFound,
        GitFailed, and keeps the previous state then."""
        async with self._locks[stored.name], self._free:
            source = stored.course.handouts
            tried = self._tried[stored.name] = _Tried(source, self.clock())
            try:
                git = await self._git(stored.name)
                left_out = await self._fetch(git, source)
                message = (
                    f"Fetched from {source.source}."
                    if source.kind != "none"
                    else "Checked for changes."
                )
                published = await self._publish(git, stored.name, by, message)
                tried.left_out = sentence([*left_out, *published.left_out])
            except PortalError as error:
                tried.problem = error.message
                raise
            except OSError as error:
                tried.problem = f"The portal cannot store the files: {error.strerror}."
                raise InvalidRequest(tried.problem) from None
            return await self.newest(stored.name)

    async def hand_out(self, stored: StoredCourse, path: str, file: Path, by: str) -> str:
        """Hand out a file to everyone as ``path``; return the newest revision. Raises
        InvalidRequest, GitFailed."""
        problem = problem_of(path)
        if problem:
            raise InvalidRequest(f"'{path[:200]}' {problem}. Choose another name.", "path")
        async with self._locks[stored.name]:
            git = await self._git(stored.name)
            before = await git.revision(_UPLOADS)
            with tempfile.TemporaryDirectory(prefix="portal-handouts-") as place:
                stream = Path(place) / "stream"
                await asyncio.to_thread(_pack_one, stream, path, file, before, by)
                await git.run("fast-import", "--quiet", "--force", stdin=stream)
            try:
                await self._publish(git, stored.name, by, f"Handed out {path}.")
            except PortalError:
                await self._put_back(git, before)
                raise
            return await self.newest(stored.name)

    async def take_back(self, stored: StoredCourse, path: str, by: str) -> str:
        """Withdraw a file that was handed out from the page; return the newest revision. Students
        keep a copy that they changed. Raises NotFound, GitFailed."""
        async with self._locks[stored.name]:
            git = await self._git(stored.name)
            before = await git.revision(_UPLOADS)
            uploads = await read(git, before)
            if path not in uploads.files:
                raise NotFound(f"There is no uploaded file '{path[:200]}'.")
            lines = file_lines(entry for name, entry in uploads.files.items() if name != path)
            stream = commit_text(_UPLOADS, f"Withdrew {path}", lines, before, by)
            await git.run("fast-import", "--quiet", "--force", stdin=stream)
            await self._publish(git, stored.name, by, f"Withdrew {path}.")
            return await self.newest(stored.name)

    # -- the loop of courses -------------------------------------------------------------------

    async def run_due(self, now: float) -> None:
        """Fetch in the background for each running course that has no handouts yet, has another
        source, or meets soon; each source at most once an hour. Raises StoreUnavailable."""
        if 0 <= now - self._looked_at < _LOOK:  # a clock may be set back
            return
        self._looked_at = now
        for stored in await self.store.courses.all(SpaceState.APPROVED):
            if stored.course.handouts.kind != "none" and stored.runs(now):
                if await self._due(stored, now):
                    task = asyncio.create_task(self._fetch_by_itself(stored))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait until everything that ``look`` began is done."""
        await asyncio.gather(*self._tasks)

    async def _due(self, stored: StoredCourse, now: float) -> bool:
        tried = self._tried.get(stored.name)
        if self._locks[stored.name].locked():
            return False
        # A clock that was set back since delays nothing.
        recent = tried is not None and 0 <= now - tried.at < _HOUR
        if recent and tried is not None and tried.source == stored.course.handouts:
            return False
        other = tried is not None and tried.source != stored.course.handouts
        soon = now + _HOUR + 60 * self.settings.lead_minutes
        nothing = not await self.newest(stored.name)
        return nothing or other or bool(meetings(stored.course, now, soon))

    async def _fetch_by_itself(self, stored: StoredCourse) -> None:
        try:
            await self.refresh(stored, "portal")
        except PortalError as error:
            self.log.warning("The handouts of course %s: %s", stored.name, error)
        except Exception:
            self.log.exception("The handouts of course %s could not be fetched", stored.name)

    # -- the repository ------------------------------------------------------------------------

    def folder(self, course: str) -> Path:
        """Return the folder with a course's files."""
        return Path(self.settings.directory or "courses").resolve() / course

    def _bundle(self, course: str, revision: str) -> Path:
        return self.folder(course) / "bundles" / f"{revision}.bundle"

    async def _git(self, course: str) -> Git:
        protocols = "https:http" if self.settings.handouts_loopback else "https"
        place = self.folder(course) / "handouts.git"
        git = Git(place, self.settings.handouts_megabytes, protocols)
        await git.make()
        return git

    async def _fetch(self, git: Git, source: Source) -> tuple[str, ...]:
        roots, seconds = self.settings.data_roots, float(self.settings.handouts_seconds)
        problem = source_problem(source, roots, loopback=self.settings.handouts_loopback)
        if problem:
            raise InvalidRequest(problem, "handouts.source")
        if source.kind == "git":
            allowed = [*self.settings.internal_hosts]
            if source.source.startswith("http:"):  # of this machine, as source_problem has checked
                allowed += LOOPBACK
            await fetch(git, source.source, source.branch, seconds, allowed)
        elif source.kind == "folder":
            return await copy(git, source.source, roots, seconds)
        elif await git.revision(REFERENCE):
            await git.run("update-ref", "-d", REFERENCE)
        return ()

    async def _put_back(self, git: Git, uploads: str) -> None:
        if uploads:
            await git.run("update-ref", _UPLOADS, uploads)
        else:
            await git.run("update-ref", "-d", _UPLOADS)

    async def _publish(self, git: Git, course: str, by: str, message: str) -> CheckedFiles:
        """Create a revision if the files differ from the last one; return the source's tree.
        Raises InvalidRequest if they are too large."""
        upstream = await read(git, await git.revision(REFERENCE))
        uploads = await read(git, await git.revision(_UPLOADS))
        files = over(upstream.files, uploads.files)
        size = sum(item.size for item in files.values())
        if size > self.settings.handouts_megabytes * 1024 * 1024:
            raise InvalidRequest(
                f"These files take {size // 1024 // 1024} MB; the limit for handouts is "
                f"{self.settings.handouts_megabytes} MB. Put large files into the shared data."
            )
        before = await git.revision(BRANCH)
        if not files and not before:
            return upstream
        words = " ".join(item for item in (message, sentence(upstream.left_out)) if item)[:1000]
        stream = commit_text(_NEXT, words, file_lines(files.values()), before, by)
        await git.run("fast-import", "--quiet", "--force", stdin=stream)
        if await git.revision(f"{_NEXT}^{{tree}}") != await git.revision(f"{BRANCH}^{{tree}}"):
            await git.run("update-ref", BRANCH, _NEXT)
        await git.run("update-ref", "-d", _NEXT)
        revision = await git.revision(BRANCH)
        if revision != await self.newest(course):
            await self._write_bundle(git, course, revision)
            await self.store.handouts.add_row(
                HandoutRevision(
                    course=course, revision=revision, by=by, at=self.clock(), message=words
                )
            )
            assert self._newest is not None
            old, self._newest[course] = self._newest.get(course, ""), revision
            if old:  # readers have it open
                await asyncio.to_thread(self._bundle(course, old).unlink, missing_ok=True)
            await git.run("gc", "-q", "--prune=now", seconds=300, room=8)
        return upstream

    async def _write_bundle(self, git: Git, course: str, revision: str) -> None:
        path = self._bundle(course, revision)
        await asyncio.to_thread(private_folder, path.parent)
        new = path.with_suffix(".new")
        await git.run("bundle", "create", "-q", str(new), "HEAD", BRANCH, seconds=300, room=8)
        await asyncio.to_thread(new.replace, path)

    async def _state(self, course: str, revision: str) -> HandoutState:
        git = await self._git(course)
        tree = await read(git, revision)
        uploads = await read(git, await git.revision(_UPLOADS))
        files = tuple(
            HandoutFile(path=entry.path, size=entry.size, uploaded=entry.path in uploads.files)
            for entry in sorted(tree.files.values(), key=lambda entry: entry.path)
        )
        return HandoutState(files=files, size=tree.size)


def _pack_one(stream: Path, path: str, file: Path, before: str, by: str) -> None:
    """Write a stream that makes git add a file to those from the page."""

    def chunks() -> Iterator[bytes]:
        with file.open("rb") as source:
            while part := source.read(_CHUNK):
                yield part

    with stream.open("wb") as into:
        into.write(commit_text(_UPLOADS, f"Handed out {path}", (), before, by)[:-1])
        write_file(into, path, file.stat().st_size, chunks())
        into.write(b"\n")
