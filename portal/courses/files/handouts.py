"""What a course hands out: one repository of the service's own for each course, in which what its
source has and what its staff hands out from the page come together, revision after revision.

Sessions get each revision as one file, a bundle of git's, and nothing else of the repository.
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
from portal.models.course.course import CourseState, KeptCourse
from portal.models.course.course import Handouts as Source
from portal.models.course.files import HandoutFile, HandoutState
from portal.models.course.live import HandoutRevision
from portal.store import Store

from ..definition.calendar import meetings
from ..roster.membership_cache import runs
from ..settings import Courses
from .git import BRANCH, Git, private_folder
from .paths import problem_of
from .source_sync import REFERENCE, copy, fetch, source_problem
from .tree import Judged, commit_text, file_lines, over, read, sentence, write_file

_UPLOADS = "refs/portal/uploads"
_NEXT = "refs/portal/next"
_HOUR = 3600.0
_LOOK = 60.0  # seconds between two looks at which courses are due
_AT_ONCE = 4  # courses that are fetched at the same time
_CHUNK = 1024 * 1024


@dataclass
class _Tried:
    """How the last try to fetch a source went."""

    source: Source
    at: float
    problem: str = ""
    left_out: str = ""


@dataclass
class CourseHandouts:
    """One a service. Every method raises StoreUnavailable, but ``known`` and ``look``."""

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
        """The revision that everyone in the course should have; "" for none."""
        if self._newest is None:
            self._newest = await self.store.handouts.newest()
        return self._newest.get(course, "")

    async def bundle(self, course: str) -> tuple[str, Path]:
        """The newest revision and the file with it. Raises NotFound, GitFailed."""
        revision = await self.newest(course)
        if not revision:
            raise NotFound("This course has handed out nothing yet.")
        path = self._bundle(course, revision)
        if not await asyncio.to_thread(path.exists):
            async with self._locks[course]:
                await self._write_bundle(await self._git(course), course, revision)
        return revision, path

    # -- what the staff does -------------------------------------------------------------------

    async def state(self, kept: KeptCourse) -> HandoutState:
        """What is handed out now. Raises GitFailed."""
        revision = await self.newest(kept.name)
        known, state = self._files.get(kept.name, ("", HandoutState()))
        if revision and known != revision:
            async with self._locks[kept.name]:
                state = await self._state(kept.name, revision)
            self._files[kept.name] = revision, state
        tried = self._tried.get(kept.name)
        revisions = tuple(await self.store.handouts.of(kept.name))
        update: dict[str, Any] = {"revision": revision, "revisions": revisions}
        if tried is not None:
            update |= {"problem": tried.problem, "left_out": tried.left_out}
            update["problem_at" if tried.problem else "fetched_at"] = tried.at
        return state.model_copy(update=update)

    async def refresh(self, kept: KeptCourse, by: str) -> str:
        """Fetch what the course's source has now; the newest revision. Raises InvalidRequest,
        NotFound, GitFailed: then what there was before stays."""
        async with self._locks[kept.name], self._free:
            source = kept.course.handouts
            tried = self._tried[kept.name] = _Tried(source, self.clock())
            try:
                git = await self._git(kept.name)
                left_out = await self._fetch(git, source)
                message = f"Fetched from {source.source}." if source.kind != "none" else "Looked."
                judged = await self._publish(git, kept.name, by, message)
                tried.left_out = sentence([*left_out, *judged.left_out])
            except PortalError as error:
                tried.problem = error.message
                raise
            except OSError as error:
                tried.problem = f"The portal cannot keep the files: {error.strerror}."
                raise InvalidRequest(tried.problem) from None
            return await self.newest(kept.name)

    async def hand_out(self, kept: KeptCourse, path: str, file: Path, by: str) -> str:
        """Hand out one file to all, under ``path``; the newest revision. Raises InvalidRequest,
        GitFailed."""
        problem = problem_of(path)
        if problem:
            raise InvalidRequest(f"'{path[:200]}' {problem}. Give it another name.", "path")
        async with self._locks[kept.name]:
            git = await self._git(kept.name)
            before = await git.revision(_UPLOADS)
            with tempfile.TemporaryDirectory(prefix="portal-handouts-") as place:
                stream = Path(place) / "stream"
                await asyncio.to_thread(_pack_one, stream, path, file, before, by)
                await git.run("fast-import", "--quiet", "--force", stdin=stream)
            try:
                await self._publish(git, kept.name, by, f"Handed out {path}.")
            except PortalError:
                await self._put_back(git, before)
                raise
            return await self.newest(kept.name)

    async def take_back(self, kept: KeptCourse, path: str, by: str) -> str:
        """Hand out a file no longer that came from the page; the newest revision. Students keep
        theirs where they changed it. Raises NotFound, GitFailed."""
        async with self._locks[kept.name]:
            git = await self._git(kept.name)
            before = await git.revision(_UPLOADS)
            uploads = await read(git, before)
            if path not in uploads.files:
                raise NotFound(f"No file '{path[:200]}' was handed out from the page.")
            lines = file_lines(one for name, one in uploads.files.items() if name != path)
            stream = commit_text(_UPLOADS, f"Took back {path}", lines, before, by)
            await git.run("fast-import", "--quiet", "--force", stdin=stream)
            await self._publish(git, kept.name, by, f"Took back {path}.")
            return await self.newest(kept.name)

    # -- the loop of courses -------------------------------------------------------------------

    async def look(self, now: float) -> None:
        """Fetch, beside all else, for each course that runs and has nothing yet, or another
        source, or meets soon; each at most once an hour. Raises StoreUnavailable."""
        if 0 <= now - self._looked_at < _LOOK:  # a clock may be set back
            return
        self._looked_at = now
        for kept in await self.store.courses.all(CourseState.APPROVED):
            if kept.course.handouts.kind != "none" and runs(kept, now):
                if await self._due(kept, now):
                    task = asyncio.create_task(self._fetch_by_itself(kept))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Until everything that ``look`` began is over."""
        await asyncio.gather(*self._tasks)

    async def _due(self, kept: KeptCourse, now: float) -> bool:
        tried = self._tried.get(kept.name)
        if self._locks[kept.name].locked():
            return False
        # A clock that was set back since puts off nothing.
        recent = tried is not None and 0 <= now - tried.at < _HOUR
        if recent and tried is not None and tried.source == kept.course.handouts:
            return False
        other = tried is not None and tried.source != kept.course.handouts
        soon = now + _HOUR + 60 * self.settings.lead_minutes
        nothing = not await self.newest(kept.name)
        return nothing or other or bool(meetings(kept.course, now, soon))

    async def _fetch_by_itself(self, kept: KeptCourse) -> None:
        try:
            await self.refresh(kept, "portal")
        except PortalError as error:
            self.log.warning("The handouts of course %s: %s", kept.name, error)
        except Exception:
            self.log.exception("The handouts of course %s could not be fetched", kept.name)

    # -- the repository ------------------------------------------------------------------------

    def folder(self, course: str) -> Path:
        """Where the files of a course are."""
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
            if source.source.startswith("http:"):  # of this machine, says source_problem
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

    async def _publish(self, git: Git, course: str, by: str, message: str) -> Judged:
        """Make a revision of what there is, if it is another than the last one; what the source
        has. Raises InvalidRequest where it is too much."""
        upstream = await read(git, await git.revision(REFERENCE))
        uploads = await read(git, await git.revision(_UPLOADS))
        files = over(upstream.files, uploads.files)
        size = sum(one.size for one in files.values())
        if size > self.settings.handouts_megabytes * 1024 * 1024:
            raise InvalidRequest(
                f"These files are {size // 1024 // 1024} MB, and a course hands out at most "
                f"{self.settings.handouts_megabytes} MB. Put large data into the course's data."
            )
        before = await git.revision(BRANCH)
        if not files and not before:
            return upstream
        words = " ".join(one for one in (message, sentence(upstream.left_out)) if one)[:1000]
        stream = commit_text(_NEXT, words, file_lines(files.values()), before, by)
        await git.run("fast-import", "--quiet", "--force", stdin=stream)
        if await git.revision(f"{_NEXT}^{{tree}}") != await git.revision(f"{BRANCH}^{{tree}}"):
            await git.run("update-ref", BRANCH, _NEXT)
        await git.run("update-ref", "-d", _NEXT)
        revision = await git.revision(BRANCH)
        if revision != await self.newest(course):
            await self._write_bundle(git, course, revision)
            await self.store.handouts.add(
                HandoutRevision(
                    course=course, revision=revision, by=by, at=self.clock(), message=words
                )
            )
            assert self._newest is not None
            old, self._newest[course] = self._newest.get(course, ""), revision
            if old:  # who reads it has it open
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
            HandoutFile(path=one.path, size=one.size, uploaded=one.path in uploads.files)
            for one in sorted(tree.files.values(), key=lambda one: one.path)
        )
        return HandoutState(files=files, size=tree.size)


def _pack_one(stream: Path, path: str, file: Path, before: str, by: str) -> None:
    """Write what makes git put one more file into what came from the page."""

    def chunks() -> Iterator[bytes]:
        with file.open("rb") as source:
            while part := source.read(_CHUNK):
                yield part

    with stream.open("wb") as into:
        into.write(commit_text(_UPLOADS, f"Handed out {path}", (), before, by)[:-1])
        write_file(into, path, file.stat().st_size, chunks())
        into.write(b"\n")
