"""Caller of the program that makes and keeps folders of projects as root.

Its arguments are a project and an action. The members are in a file that is written here before;
all else is in the program's own settings, which only root can change.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from portal.errors import ConfigurationError, Conflict, InvalidRequest, PortalError, Unavailable
from portal.models import Frozen
from portal.models.space import Login, SpaceName

SETTINGS = Path("/etc/data-scientist-portal/project-folders.json")
"""The program's settings, which everyone can read. Without this file, projects have no folders."""

HELP = "docs/how-to/project-folders.md"
_NAME = TypeAdapter(SpaceName)
_REFUSED = 3  # the program's status if it says no
_QUICK, _WHOLE = 60.0, 3700.0  # seconds: of a probe; of all files of a project
_SUDO = re.compile(r"^sudo: (?!unable to resolve host)(.*)$|^Sorry, user .*", re.MULTILINE)


class FolderRole(StrEnum):
    """Role of a member in a project's folder: readers change nothing."""

    OWNER = "owner"
    MEMBER = "member"
    READER = "reader"


class FolderMembers(Frozen):
    """Members of a project, as the program reads them."""

    project: SpaceName
    members: Annotated[dict[Login, FolderRole], Field(max_length=400)]


class FolderAnswer(Frozen):
    """Answer of the program: what it changed, or would change.

    ``unknown``: members that are no users of this machine. ``refused``: files that it left, each
    with the reason. These lists have the first names; the counts are of all.
    """

    project: str
    action: str
    quota: str
    archived: bool = False
    unknown: tuple[str, ...] = ()
    unknown_count: int = 0
    refused: tuple[str, ...] = ()
    refused_count: int = 0
    changed: tuple[str, ...] = ()
    changed_count: int = 0


class FolderSettings(BaseModel):
    """Settings of the program that the portal needs too."""

    program: Path
    root: Path  # has the folders of projects
    members: Path  # has the files of members


class ProjectFolders:
    """Folders of projects, made by the program with these ``settings``. ``sudo``: words before its
    path, unless this process is root's."""

    def __init__(
        self, log: logging.Logger, settings: Path = SETTINGS, sudo: Sequence[str] = ("sudo", "-n")
    ) -> None:
        self.log, self.file = log, settings
        self.sudo = tuple(sudo) if os.geteuid() else ()

    async def make(self, project: str, members: Mapping[str, FolderRole]) -> FolderAnswer:
        """Make the project's folder, or give its members their rights; repeat it after each change
        of them. Without members, it is closed to all. Files keep the mode that their owners gave
        them. Raises PortalError."""
        await asyncio.to_thread(self._write_members, project, members)
        return await self._call(project, "make", _WHOLE)

    async def list_repair(self, project: str) -> FolderAnswer:
        """List what a repair would change. Raises PortalError."""
        return await self._call(project, "repair-list", _WHOLE)

    async def repair(self, project: str) -> FolderAnswer:
        """Change what was listed last. Raises Conflict if nothing was; PortalError."""
        return await self._call(project, "repair", _WHOLE)

    async def archive(self, project: str) -> FolderAnswer:
        """Make all files read-only. Raises PortalError."""
        return await self._call(project, "archive", _WHOLE)

    async def restore(self, project: str) -> FolderAnswer:
        """Undo the archiving. Raises PortalError."""
        return await self._call(project, "restore", _WHOLE)

    async def probe(self) -> FolderAnswer:
        """Try program, rule and file system with a folder that is removed. Raises PortalError."""
        return await self._call("probe", "probe", _QUICK)

    def settings(self) -> FolderSettings:
        """Return the program's settings. Blocks. Raises ConfigurationError, if the site has no
        folders of projects too."""
        try:
            return FolderSettings.model_validate_json(self.file.read_bytes())
        except FileNotFoundError:
            message = f"This site has no folders of projects: see {HELP}."
        except OSError as error:
            message = f"{self.file}: {error.strerror}. See {HELP}."
        except ValidationError as error:
            names = ", ".join(".".join(map(str, row["loc"])) or "JSON" for row in error.errors())
            message = f"{self.file} is wrong: {names}. See {HELP}."
        raise ConfigurationError(message)

    def folder_of(self, project: str) -> Path:
        """Return the path of the project's folder. Blocks. Raises PortalError."""
        return self.settings().root / _checked(project)

    def _write_members(self, project: str, members: Mapping[str, FolderRole]) -> None:
        try:
            content = FolderMembers(project=project, members=dict(members))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InvalidRequest(f"The members of the folder: {place}: {first['msg']}.") from None
        folder = self.settings().members
        try:
            with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", delete=False) as file:
                new = Path(file.name)
                try:
                    file.write(content.model_dump_json())
                    file.flush()
                    os.fsync(file.fileno())
                    new.replace(folder / f"{content.project}.json")
                except BaseException:
                    new.unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise ConfigurationError(
                f"The portal cannot write into {folder}, where the members of projects are read: "
                f"{error.strerror}. {HELP} has its owner and mode."
            ) from None

    async def _call(self, project: str, action: str, seconds: float) -> FolderAnswer:
        name = _checked(project)
        program = str((await asyncio.to_thread(self.settings)).program)
        argv = [*self.sudo, program, name, action]
        self.log.debug("Running %s", argv)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            raise ConfigurationError(f"'{argv[0]}' cannot be started: {error.strerror}.") from None
        try:
            out, err = await asyncio.wait_for(process.communicate(), seconds)
        except TimeoutError:
            # It is root's, so it cannot be ended from here: it ends by its own limit.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                process.kill()
            raise Unavailable(
                f"The folder of project '{project}' is still being worked on. Try again later."
            ) from None
        status = process.returncode or 0
        if status:
            raise _error_of(project, status, err.decode(errors="replace").strip())
        return _answer_of(program, out)


def _checked(project: str) -> str:
    try:
        return _NAME.validate_python(project)
    except ValidationError:
        raise InvalidRequest(f"{project!r} is no name of a project.") from None


def _error_of(project: str, status: int, words: str) -> PortalError:
    """Return the error for a call that ended with ``status`` (not 0)."""
    if status == _REFUSED:
        return Conflict(f"The folder of project '{project}': {words}")
    refused = _SUDO.search(words)
    if refused:
        return ConfigurationError(
            f'The portal may not make folders of projects: sudo says "{refused[0]}". An admin '
            f"installs the rule: see {HELP}."
        )
    last = words.splitlines()[-1][:300] if words else f"status {status}"
    return ConfigurationError(f"The program for folders of projects failed: {last}.")


def _answer_of(program: str, out: bytes) -> FolderAnswer:
    try:
        value: Any = json.loads(out)
        return FolderAnswer.model_validate(value)
    except ValueError:  # pydantic's is one
        raise ConfigurationError(
            f"{program} gave no answer of this version: install deploy/project-folder again."
        ) from None
