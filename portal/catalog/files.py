"""Environments from a directory of YAML files, one environment a file."""

from __future__ import annotations

import asyncio
import difflib
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from traitlets import Float, Integer, Unicode
from traitlets.config import LoggingConfigurable

from portal.errors import NotFound
from portal.models import Frozen
from portal.models.environment import Environment
from portal.models.person import Person

from .document import Document, DocumentError, read_document


class CatalogError(Frozen):
    """What is wrong with one file. ``line`` counts from 1; None: the file or directory itself."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class _Reading(NamedTuple):
    """One file as it was read: what tells that it changed, and what came out of it."""

    mark: tuple[int, int, int, int]  # mtime_ns, ctime_ns, size, inode
    environment: Environment | None
    name_line: int | None
    errors: tuple[CatalogError, ...]


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
        self.loaded = False  # the directory was read at least once
        self._readings: dict[str, _Reading] = {}
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
        readings = {path.name: self._read(path) for path in paths}
        environments: dict[str, Environment] = {}
        owner: dict[str, str] = {}
        errors: list[CatalogError] = []
        for file, reading in readings.items():
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
        for problem in errors:
            if problem not in self.errors:
                self.log.warning("Environment file %s", problem)
        self._readings = readings
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

    def _read(self, path: Path) -> _Reading:
        """One file; the last reading again when it did not change."""
        mark = (0, 0, 0, 0)
        try:
            # O_NONBLOCK: a named pipe put here must not hang the reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                mark = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
                known = self._readings.get(path.name)
                if known and known.mark == mark:
                    return known
                if not stat.S_ISREG(status.st_mode):
                    raise DocumentError("not a regular file", None)
                raw = file.read(self.max_size + 1)
            if len(raw) > self.max_size:
                raise DocumentError(f"larger than {self.max_size} bytes", None)
            document = read_document(raw)
        except DocumentError as error:
            wrong = CatalogError(file=path.name, line=error.line, message=error.message)
            return _Reading(mark, None, None, (wrong,))
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            wrong = CatalogError(file=path.name, line=None, message=reason)
            return _Reading((0, 0, 0, 0), None, None, (wrong,))
        try:
            environment = Environment.model_validate(document.data)
        except ValidationError as error:
            return _Reading(mark, None, None, _explained(path.name, document, error))
        return _Reading(mark, environment, document.line_of(("name",)), ())


def visible(environment: Environment, person: Person) -> bool:
    """Whether the person may use the environment: it names no group, or one of theirs. Admins
    see all, since they are who mends them."""
    groups = environment.groups
    return not groups or person.admin or not set(groups).isdisjoint(person.groups)


def _explained(file: str, document: Document, error: ValidationError) -> tuple[CatalogError, ...]:
    """pydantic's findings in the words of the file's author, each with its line."""
    found = []
    for detail in error.errors(include_url=False, include_context=False):
        place = tuple(step for step in detail["loc"] if step != "[key]")
        name = ".".join(str(step) for step in place)
        reason = detail["msg"].removeprefix("Value error, ")
        match detail["type"]:
            case "missing":
                message = f"'{name}' is missing"
            case "extra_forbidden":
                near = difflib.get_close_matches(str(place[-1]), Environment.model_fields, 1)
                hint = f"; did you mean '{near[0]}'?" if near and len(place) == 1 else ""
                message = f"'{name}' is not a known key{hint}"
            case "string_type" if isinstance(detail["input"], int | float):
                message = f"'{name}' must be text: put it in quotes"
            case _:
                message = f"'{name}': {reason}" if name else reason
        found.append(CatalogError(file=file, line=document.line_of(place), message=message))
    return tuple(found)
