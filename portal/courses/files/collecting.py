"""Collections of folders from everyone in a course: dated copies, taken from the sessions that run
and kept in the service's own folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast
from zoneinfo import ZoneInfo

import portal
from portal.cache import SharedAnswer
from portal.errors import Conflict, InvalidRequest, Unavailable
from portal.models.course.course import StoredCourse
from portal.models.course.files import CollectItem
from portal.models.course.live import Collect, Collected
from portal.models.session.session import SessionRecord
from portal.models.space import Role, SpaceState
from portal.store import Store

from ..settings import Courses
from .git import private_folder
from .paths import folder_problem, safe_name

FILES = 10_000  # of one person's folder
_MOST_OPEN = 10  # collections of one course at the same time
_SECONDS = 120.0  # that unpacking may take
_AT_ONCE = 4  # folders that are unpacked at the same time
_CHUNK = 256 * 1024
_MEGABYTE = 1024 * 1024
_SHARED = 2.0  # seconds for which the open collections are known
_PACKAGES = str(Path(portal.__file__).resolve().parents[1])  # where this package is


_Open = Mapping[str, list[tuple[Collect, frozenset[str]]]]


@dataclass
class Collecting:
    """Collections of courses; one instance a service. All but ``zipped`` raise
    StoreUnavailable."""

    store: Store
    settings: Courses
    clock: Callable[[], float] = time.time
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @property
    def most(self) -> int:
        """Limit of bytes from one person."""
        return self.settings.collect_megabytes * _MEGABYTE

    # -- the staff ----------------------------------------------------------------------------

    async def begin(self, stored: StoredCourse, folder: str, by: str) -> Collect:
        """Begin to collect ``folder`` of everyone's home. Raises InvalidRequest, Conflict."""
        folder = folder.strip().strip("/")
        problem = folder_problem(folder)
        if problem:
            raise InvalidRequest(
                f"'{folder[:200]}' {problem}. Enter a folder in the students' home directory, such "
                f"as '{stored.name}/homework'.",
                "folder",
            )
        if stored.state is not SpaceState.APPROVED:
            raise Conflict(f"The course '{stored.name}' is {stored.state}, so it has no sessions.")
        collects = [
            collect
            for collect in await self.store.collects.of_course(stored.name)
            if not collect.closed_at
        ]
        if any(collect.folder == folder for collect in collects):
            raise Conflict(f"'{folder}' is already being collected. Close that collection first.")
        if len(collects) >= _MOST_OPEN:
            raise Conflict(f"{_MOST_OPEN} collections are already open. Close one of them.")
        new = Collect(course=stored.name, folder=folder, by=by, at=self.clock())
        return await self.store.collects.add_row(new)

    async def items(self, stored: StoredCourse) -> tuple[CollectItem, ...]:
        """Return the collections, newest first, with who gave and which students did not."""
        collects = await self.store.collects.of_course(stored.name)
        given = await self.store.collects.given([row.id for row in collects])
        members = await self.store.members.of_space(stored.name)
        students = [row.person for row in members if row.role is Role.STUDENT]
        items = []
        for collect in collects:
            own = tuple(row for row in given if row.collect_id == collect.id)
            gave = {row.person for row in own if not row.message or row.files}
            items.append(
                CollectItem(
                    **collect.model_dump(exclude={"course"}),
                    given=own,
                    missing=tuple(name for name in students if name not in gave),
                    size=sum(row.size for row in own),
                )
            )
        return tuple(items)

    # -- sessions -----------------------------------------------------------------------------

    async def waiting(self) -> Mapping[str, list[tuple[Collect, frozenset[str]]]]:
        """Return the open collections by course, each with the people who gave already."""
        collects = await self.store.collects.open()
        given = await self.store.collects.given([row.id for row in collects])
        by_course: dict[str, list[tuple[Collect, frozenset[str]]]] = {}
        for collect in collects:
            gave = (row for row in given if row.collect_id == collect.id)
            people = frozenset(row.person for row in gave if not row.message or row.files)
            by_course.setdefault(collect.course, []).append((collect, people))
        return by_course

    async def nothing(self, collect: Collect, person: str, problem: str) -> None:
        """Record why a person's session gives nothing, unless it gave before. Raises Conflict."""
        _open(collect)
        for collected in await self.store.collects.given([collect.id]):
            if collected.person == person and collected.files:
                return
        clean = "".join(char if char.isprintable() else " " for char in problem)[:300]
        given = Collected(collect_id=collect.id, person=person, at=self.clock(), message=clean)
        await self.store.collects.give(given)

    async def take(
        self, stored: StoredCourse, collect: Collect, person: str, packed: Path, left_out: int = 0
    ) -> Collected:
        """Store the tar file from a person's session, replacing an earlier one. ``left_out``:
        number of things that the session did not pack. Raises Conflict, InvalidRequest,
        Unavailable."""
        _open(collect)
        place = self.place(stored, collect)
        try:
            await asyncio.to_thread(private_folder, place.parent)
            await asyncio.to_thread(private_folder, place)
            new = await asyncio.to_thread(tempfile.mkdtemp, prefix=".new-", dir=place)
        except OSError as error:
            raise Unavailable(f"The portal cannot store the files: {error.strerror}.") from None
        try:
            async with self._free:
                unpacked = await self._unpack(packed, Path(new))
            # The collection may have been closed meanwhile, and must not change after that.
            _open(await self.store.collects.get(stored.name, collect.id))
            await asyncio.to_thread(_put, Path(new), place / safe_name(person))
        except OSError as error:
            raise Unavailable(f"The portal cannot store the files: {error.strerror}.") from None
        finally:
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        left_out += unpacked["left_out"]
        more = f"{left_out} links or special files were left out." if left_out else ""
        given = Collected(
            collect_id=collect.id,
            person=person,
            at=self.clock(),
            files=unpacked["files"],
            size=unpacked["size"],
            message=more,
        )
        await self.store.collects.give(given)
        return given

    async def _unpack(self, packed: Path, folder: Path) -> dict[str, Any]:
        """Unpack in a process of its own, with limits on time and memory."""
        process = await asyncio.create_subprocess_exec(
            *("prlimit", f"--as={1024 * _MEGABYTE}", f"--fsize={self.most + _MEGABYTE}"),
            *(sys.executable, "-s", "-P", "-m", "portal.courses.files.unpacking"),
            *(str(packed), str(folder), str(self.most), str(FILES)),
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "PYTHONPATH": _PACKAGES,
                "LC_ALL": "C.UTF-8",
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                out, _ = await process.communicate()
            result: dict[str, Any] = json.loads(out)
        except (TimeoutError, ValueError):
            raise InvalidRequest("The upload is not a valid tar file.") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if "error" in result:
            raise InvalidRequest(str(result["error"]))
        return result

    # -- what is there ------------------------------------------------------------------------

    def name(self, stored: StoredCourse, collect: Collect) -> str:
        """Return the name of a collection's folder and zip file, with its date."""
        at = datetime.fromtimestamp(collect.at, ZoneInfo(stored.course.timezone))
        return f"{at:%Y-%m-%d-%H%M}-{safe_name(collect.folder.replace('/', '_'))}-{collect.id}"

    def place(self, stored: StoredCourse, collect: Collect) -> Path:
        """Return the folder of a collection, which contains a folder for each person."""
        root = Path(self.settings.directory or "courses").resolve()
        return root / stored.name / "collected" / self.name(stored, collect)

    def zipped(self, stored: StoredCourse, collect: Collect) -> Iterator[bytes]:
        """Yield all of it as a zip file, piece by piece, while it is read. Blocks; raises
        OSError."""
        place, name = self.place(stored, collect), self.name(stored, collect)
        sink = _Sink()
        with zipfile.ZipFile(
            cast(IO[bytes], sink), "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as packed:
            for path in _files(place):
                about = zipfile.ZipInfo.from_file(
                    path, f"{name}/{path.relative_to(place)}", strict_timestamps=False
                )
                about.compress_type = zipfile.ZIP_DEFLATED
                with path.open("rb") as source, packed.open(about, "w", force_zip64=True) as into:
                    while part := source.read(_CHUNK):
                        into.write(part)
                        yield sink.taken()
                yield sink.taken()
        yield sink.taken()


class _Sink:
    """Write-only file that passes its content on at once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        content, self._parts = b"".join(self._parts), []
        return content


def _files(place: Path) -> Iterator[Path]:
    """Yield every file below ``place``, by name, except those still being received."""
    for folder, names, files in os.walk(place):
        names[:] = sorted(
            name for name in names if folder != str(place) or not name.startswith(".")
        )
        yield from (Path(folder) / name for name in sorted(files))


def _put(new: Path, target: Path) -> None:
    """Replace the folder ``target`` with ``new``, completely or not at all."""
    old = new.with_name(f"{new.name}-old")
    with contextlib.suppress(FileNotFoundError):
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _open(collect: Collect) -> None:
    if collect.closed_at is not None:
        raise Conflict("This collection is closed.")


class OpenCollects:
    """Open collections of all courses, read once for all sessions. One instance per service."""

    def __init__(self, collecting: Collecting) -> None:
        waiting = collecting.waiting
        self._asked = SharedAnswer[_Open](waiting, ttl=_SHARED, patience=1.0, first={})

    async def of_session(self, record: SessionRecord) -> tuple[Collect, ...]:
        """Return those of the session's course to which its person has given nothing yet."""
        collects = (await self._asked.get()).get(record.space, ())
        return tuple(collect for collect, givers in collects if record.user not in givers)

    def forget(self) -> None:
        """Discard the shared answer after a change."""
        self._asked.invalidate()
