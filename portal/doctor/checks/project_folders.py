"""Check of the folders of projects: the program that makes them as root, its rule, a probe."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from portal.errors import PortalError
from portal.projects.folder.folders import HELP, SETTINGS, ProjectFolders
from portal.projects.settings import Projects

from ..command import ask
from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site
from .storage import file_system, is_local, remote_nodes

_INSTALL = f"Install it as {HELP} says."
# Calls that the rule must refuse, without the program's path.
_TOO_WIDE = (("probe",), ("probe", "probe", "x"), ("../etc", "make"), ("probe", "remove"))


@check("project-folders", "Folders of projects can be made, and nothing else")
async def project_folders(site: Site) -> Result:
    folders = ProjectFolders(site.log)
    if not folders.file.exists():
        return skipped(f"{folders.file} does not exist: projects have no folders")
    try:
        settings = await asyncio.to_thread(folders.settings)
    except PortalError as error:
        return failure(error.message, _INSTALL)
    results = [await asyncio.to_thread(_program, settings.program)]
    used = str(site.setting(Projects, "root"))
    if used.rstrip("/") != str(settings.root):
        results.append(
            failure(
                f"c.Projects.root is '{used}', and the folders are made in {settings.root}",
                f'Set c.Projects.root = "{settings.root}".',
            )
        )
    results += await _probe(site, folders, settings.root)
    if site.is_root:
        results.append(
            skipped(
                "root needs no sudo rule, so the Hub's was not checked",
                "Run this command as the Hub's account: sudo -u portal portal doctor",
            )
        )
    else:
        results += await _rule(site, [*folders.sudo, "-l", "-u", "root", str(settings.program)])
        if not await asyncio.to_thread(_owns, settings.members):
            results.append(
                failure(
                    f"'{site.account}' alone must be able to write {settings.members}", _INSTALL
                )
            )
    return worst(results)


def _program(program: Path) -> Result:
    """Return whether only root can change the program and the folders above it."""
    if not program.is_absolute():
        return failure(f"{SETTINGS}: '{program}' is no absolute path", _INSTALL)
    for path in (program, *program.parents):
        try:
            status = path.lstat()
        except OSError as error:
            return failure(f"{path}: {error.strerror}", _INSTALL)
        # In a folder with the sticky bit, others cannot replace what is root's.
        loose = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if status.st_uid != 0 or (loose and not stat.S_ISLNK(status.st_mode)):
            return failure(
                f"{path} can be changed by others than root, and {program} runs as root",
                f"chown root:root {path} && chmod go-w {path}",
            )
    if not program.is_file() or not program.stat().st_mode & 0o100:
        return failure(f"{program} is no program", _INSTALL)
    return ok(f"{program}, which only root can change")


async def _probe(site: Site, folders: ProjectFolders, root: Path) -> list[Result]:
    """Return whether a folder was made in which two users share a file, and is gone again."""
    try:
        answer = await folders.probe()
    except PortalError as error:
        return [failure(error.message, _INSTALL)]
    kind = await asyncio.to_thread(file_system, root)
    results = [ok(f"{root} ({kind}) keeps ACLs; quotas of projects: {answer.quota}")]
    if await asyncio.to_thread(is_local, root) and await remote_nodes(site):
        results.append(
            warning(
                f"{root} is on {kind}, which the nodes cannot read",
                f"Put 'root' of {SETTINGS} on a file system that the nodes share.",
            )
        )
    return results


async def _rule(site: Site, ask_for: list[str]) -> list[Result]:
    """Return whether the rule allows nothing but the program with its two arguments."""
    results = [ok("the rule allows it alone")]
    for words in _TOO_WIDE:
        # -l with a command only checks whether it is allowed (sudo(8)).
        if (await ask([*ask_for, *words])).status == 0:
            results.append(
                warning(
                    f"'{site.account}' may call {ask_for[-1]} with {' '.join(words)!r}, which "
                    "only the program refuses",
                    "Copy deploy/project-folder/sudoers to /etc/sudoers.d/portal-project-folder.",
                )
            )
    return results


def _owns(place: Path) -> bool:
    """Return whether only this account can write into the folder."""
    status = place.stat() if place.is_dir() else None
    return status is not None and status.st_uid == os.geteuid() and not status.st_mode & 0o022
