"""Checks of the file systems that the Hub and the nodes share: homes and job logs."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import re
import stat
from pathlib import Path

from portal.acl import problem_of
from portal.errors import PortalError

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site
from .access import is_loopback

# Types that only one machine sees (proc(5), mountinfo).
_LOCAL = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "ramfs", "f2fs", "squashfs")
)


def file_system(path: Path) -> str:
    """Return the type of the file system that ``path`` is on, from /proc/self/mountinfo."""
    real = path.resolve()
    best, kind = "", ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), left.split(" ")[4])
        inside = point == "/" or real == Path(point) or str(real).startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def is_local(path: Path) -> bool:
    """Return True if only this machine sees the file system of ``path``."""
    return file_system(path) in _LOCAL


async def remote_nodes(site: Site) -> bool:
    """Return True if some nodes are other machines than this one; True in doubt."""
    try:
        nodes = (await site.cluster.snapshot()).nodes.values()
    except PortalError:
        return True
    return any(not is_loopback(node.address) for node in nodes)


@check("homes", "Homes are on a file system that the nodes share")
async def homes(site: Site) -> Result:
    person = site.person or _first_person(site)
    if not person:
        return skipped("no user to check with", "Name one: portal doctor --person=ada")
    return await asyncio.to_thread(_home_of, person, await remote_nodes(site))


def _home_of(person: str, remote: bool) -> Result:
    try:
        home = Path(pwd.getpwnam(person).pw_dir)
    except KeyError:
        return failure(
            f"'{person}' has no account on this machine",
            "The Hub's machine needs the same user accounts as the nodes (sssd or nslcd for LDAP).",
        )
    if not home.is_dir():
        return warning(
            f"{person}'s home {home} does not exist on this machine",
            "Mount the homes here, or create homes at the first launch with "
            "c.PortalSpawner.preparation_hook.",
        )
    kind = file_system(home)
    if kind in _LOCAL and remote:
        return warning(
            f"{home} is on {kind}, which is not shared with other machines",
            "Mount the same homes here and on every node.",
        )
    return ok(f"{home} is on {kind}")


def _first_person(site: Site) -> str:
    """Return a member of the group of people in deploy/sudoers, "" if this site did not keep its
    name."""
    try:
        group = grp.getgrnam("portal-users")
    except KeyError:
        return ""
    return next((name for name in group.gr_mem if name not in (site.account, "root")), "")


@check("job-logs", "Jobs can write their logs, and only the Hub can read all logs")
async def logs(site: Site) -> Result:
    kind = site.spawner
    if "log_directory" not in kind.class_traits():
        return skipped(f"{kind.__name__} stores no job logs")
    path = Path(site.setting(kind, "log_directory"))
    return await asyncio.to_thread(_logs_in, path, site, await remote_nodes(site))


def _logs_in(path: Path, site: Site, remote: bool) -> Result:
    make = f"install -d -o portal -g portal -m 0711 {path} (as the Hub's account and group)"
    if not path.is_dir():
        return failure(f"{path} does not exist, so jobs cannot start", make)
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    results = [ok(f"{path}, mode {mode:04o}, {file_system(path)}")]
    if mode != 0o711:
        results.append(failure(f"{path} has mode {mode:04o}, not 0711", f"chmod 0711 {path}"))
    if not site.is_root and status.st_uid != os.geteuid():
        results.append(failure(f"'{site.account}' does not own {path}", make))
    if os.access(path, os.W_OK) and (problem := problem_of(path)):
        results.append(
            warning(
                f"{problem}, so anyone who knows the name of a job's log can append to it",
                "Use a file system with POSIX ACLs (acl(5)); NFS 4 has none.",
            )
        )
    if is_local(path) and remote:
        results.append(
            warning(
                f"{path} is on {file_system(path)}, which the nodes cannot read",
                "Set c.PortalSpawner.log_directory to a folder that the nodes share with the Hub.",
            )
        )
    return worst(results)
