"""Environments from a directory of YAML files, one environment a file."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from traitlets import Float, Integer, Unicode
from traitlets.config import LoggingConfigurable

from portal.errors import NotFound
from portal.models.environment import Environment
from portal.models.person import Person

from .document import DocumentError
from .problems import CatalogError
from .reading import Reading, read_definition
from .rules import CatalogRules


class SourceFile(NamedTuple):
    """Where an environment was read from: the file's name in the directory, ``hash`` of its bytes,
    the number of the account that it belongs to, and when it was written (Unix seconds)."""

    file: str
    hash: str
    owner: int
    at: float


class _Seen(NamedTuple):
    """One file as it was read: what tells that it changed, and what came out of it."""

    mark: tuple[int, int, int, int]  # mtime_ns, ctime_ns, size, inode
    owner: int
    reading: Reading


class EnvironmentCatalog(LoggingConfigurable):
    """The environments of one directory, kept fresh by ``await load()``.

    A file that is wrong is named in ``errors`` and the others still load. When the directory
    itself cannot be read, what was loaded last stays, and ``errors`` says so.
    """

    directory = Unicode(
        "/etc/data-scientist-portal/environments",
        help="""
        The directory with one environment a file, ``*.yaml`` or ``*.yml``. Changed, new and
        removed files are seen without a restart.

        Example::

            c.EnvironmentCatalog.directory = "/srv/portal/environments"
        """,
    ).tag(config=True)

    max_size = Integer(
        65536,
        help="""
        The largest environment file that is read, in bytes. A larger one is an error.

        Example::

            c.EnvironmentCatalog.max_size = 131072
        """,
    ).tag(config=True)

    timeout = Float(
        5.0,
        help="""
        Seconds that ``load()`` waits for the directory (it may lie on a network file system)
        before it goes on with what it knows.

        Example::

            c.EnvironmentCatalog.timeout = 2.0
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.environments: dict[str, Environment] = {}
        self.errors: tuple[CatalogError, ...] = ()
        self.rules = CatalogRules(parent=self)
        self.sources: dict[str, SourceFile] = {}  # by the environment's name
        self.loaded = False  # the directory was read at least once
        self._seen: dict[str, _Seen] = {}
        self._scan: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Look at the directory again, off the event loop; callers at one moment share the look.

        Raises nothing for a wrong file or directory: ``errors`` tells.
        """
        if self._scan is None or self._scan.done():
            self._scan = asyncio.create_task(asyncio.to_thread(self.load_now))
        try:
            await asyncio.wait_for(asyncio.shield(self._scan), self.timeout)
        except TimeoutError:
            self._keep(f"the directory did not answer within {self.timeout:g} s")

    def load_now(self) -> None:
        """The same, in the calling thread (for commands that have no event loop)."""
        try:
            paths = sorted(
                (
                    entry
                    for entry in Path(self.directory).iterdir()
                    if entry.suffix in (".yaml", ".yml") and not entry.name.startswith(".")
                ),
                key=lambda path: path.name,
            )
        except OSError as error:
            self._keep(f"cannot read the directory: {error.strerror}")
            return
        everything = {path.name: self._read(path) for path in paths}
        environments: dict[str, Environment] = {}
        owner: dict[str, str] = {}
        errors: list[CatalogError] = []
        sources: dict[str, SourceFile] = {}
        for file, seen in everything.items():
            reading = seen.reading
            errors += reading.errors
            found = reading.environment
            if found is None:
                continue
            if found.name in owner:
                message = f"the name '{found.name}' is already taken by {owner[found.name]}"
                errors.append(CatalogError(file=file, line=reading.name_line, message=message))
                continue
            owner[found.name] = file
            environments[found.name] = found
            written = seen.mark[0] / 1e9
            sources[found.name] = SourceFile(file, reading.hash, seen.owner, written)
        for problem in errors:
            if problem not in self.errors:
                self.log.warning("Environment file %s", problem)
        self._seen, self.sources = everything, sources
        self.environments = dict(
            sorted(environments.items(), key=lambda item: (item[1].order, item[1].title, item[0]))
        )
        self.errors = tuple(errors)
        self.loaded = True

    def visible_to(self, person: Person) -> list[Environment]:
        """The environments that ``person`` may use, in the order of the launch page."""
        return [found for found in self.environments.values() if visible(found, person)]

    def get(self, name: str, person: Person) -> Environment:
        """The environment called ``name``. Raises NotFound, in the same words, when there is none
        and when there is one that is not for this person."""
        found = self.environments.get(name)
        if found is None or not visible(found, person):
            raise NotFound(f"There is no environment '{name[:63]}' that you may use.")
        return found

    def _keep(self, reason: str) -> None:
        """Note what is wrong with the directory, beside what the last good look found."""
        problem = CatalogError(file=self.directory, line=None, message=reason)
        if problem not in self.errors:
            self.log.warning("Environments: %s", problem)
            self.errors = (problem, *(e for e in self.errors if e.file != self.directory))

    def _read(self, path: Path) -> _Seen:
        """One file; the last reading again when it did not change."""
        mark, owner = (0, 0, 0, 0), 0
        try:
            # O_NONBLOCK: a named pipe put here must not hang the reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                mark = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                owner = status.st_uid
                known = self._seen.get(path.name)
                if known and known.mark == mark:
                    return known
                if not stat.S_ISREG(status.st_mode):
                    raise DocumentError("not a regular file", None)
                raw = file.read(self.max_size + 1)
        except DocumentError as error:
            wrong = CatalogError(file=path.name, line=error.line, message=error.message)
            return _Seen(mark, owner, Reading(None, (wrong,)))
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            wrong = CatalogError(file=path.name, line=None, message=reason)
            return _Seen((0, 0, 0, 0), owner, Reading(None, (wrong,)))
        return _Seen(mark, owner, read_definition(raw, path.name, self.rules, self.max_size))


def visible(environment: Environment, person: Person) -> bool:
    """Whether the person may use the environment: it names no group, or one of theirs. Admins
    see all, since they are who mends them."""
    groups = environment.groups
    return not groups or person.admin or not set(groups).isdisjoint(person.groups)
