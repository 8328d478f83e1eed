"""Checks of Apptainer, as far as this machine can tell: sessions start it on the nodes."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from portal.models.catalog.environment import EnvironmentKind

from ..command import ask
from ..finding import Result, check, ok, skipped, warning, worst
from ..site import Site

ON_NODES = "Sessions use the nodes: check there too (run this command on a node)."
_OLDEST = (1, 1)


async def needed(site: Site) -> bool:
    await site.catalog.load()
    return any(
        environment.kind is EnvironmentKind.CONTAINER
        for environment in site.catalog.environments.values()
    )


@check("apptainer", "Apptainer is installed")
async def command(site: Site) -> Result:
    if not await needed(site):
        return skipped("no environment is a container")
    return await examine(name_of(site))


def name_of(site: Site) -> str:
    """Return Apptainer's command, as the spawner calls it."""
    kind = site.spawner
    return site.setting(kind, "apptainer") if "apptainer" in kind.class_traits() else "apptainer"


async def examine(name: str) -> Result:
    """Check whether ``name`` is an Apptainer that is new enough."""
    program = shutil.which(name)
    if not program:
        return warning(f"'{name}' is not installed here", f"Install Apptainer. {ON_NODES}")
    answer = await ask([program, "--version"])
    if answer.status:
        return warning(f"{program} does not run: {answer.words}", ON_NODES)
    version = answer.stdout.strip()
    numbers = tuple(int(p) for p in version.rpartition(" ")[2].split(".")[:2] if p.isdigit())
    if "apptainer" in version and numbers < _OLDEST:
        return warning(f"{version} is too old", f"Install Apptainer 1.1 or newer. {ON_NODES}")
    return ok(f"{version} ({program})")


@check("apptainer-kernel", "Users can start containers")
async def kernel(site: Site) -> Result:
    if not await needed(site):
        return skipped("no environment is a container")
    return await asyncio.to_thread(_kernel, site)


def _kernel(site: Site) -> Result:
    results = [ok("user namespaces are allowed and /dev/fuse is usable")]
    # user_namespaces(7); the second switch is Debian's, the third Ubuntu's.
    for name, bad in (
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        try:
            value = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue
        if value == bad:
            results.append(
                warning(
                    f"{name.replace('/', '.')} is {bad} here: without Apptainer's setuid part, "
                    "only root can start containers",
                    f"Change it with sysctl, or install the package apptainer-suid. {ON_NODES}",
                )
            )
    fuse = Path("/dev/fuse")
    if not fuse.exists():
        results.append(
            warning(
                "/dev/fuse does not exist here, so users cannot mount SIF files",
                f"Load the module: modprobe fuse. {ON_NODES}",
            )
        )
    elif (fuse.stat().st_mode & 0o006) != 0o006 and not (
        not site.is_root and os.access(fuse, os.R_OK | os.W_OK)
    ):
        results.append(
            warning(
                "/dev/fuse here is not open to users, so they cannot mount SIF files",
                "chmod 666 /dev/fuse (udev's usual mode), or use a sandbox directory as the "
                f"image. {ON_NODES}",
            )
        )
    return worst(results)
