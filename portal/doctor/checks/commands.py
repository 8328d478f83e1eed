"""Check of Slurm's commands in containers: run in the images of the catalog."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from portal.models.catalog.environment import EnvironmentKind

from ..command import ask
from ..finding import Result, check, ok, skipped, warning, worst
from ..site import Site
from .apptainer import ON_NODES, name_of, needed

_COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct")
_SETTING = "c.PortalSpawner.commands_in_containers"
_GUIDE = "docs/how-to/command-line.md"
# With LD_TRACE_LOADED_OBJECTS set, ld.so(8) lists a program's libraries and does not run it.
_SCRIPT = """for command; do
  if said=$("$command" --version 2>&1); then echo "ok $command"; continue; fi
  echo "failed $command ${said%%
*}"
  LD_TRACE_LOADED_OBJECTS=1 "$command" 2>/dev/null | while read -r name rest; do
    [ "$rest" != "=> not found" ] || echo "missing $name"
  done
done"""


@check("apptainer-commands", "Slurm's commands work in containers")
async def commands(site: Site) -> Result:
    kind, name = site.spawner, "commands_in_containers"
    paths = list(site.setting(kind, name)) if name in kind.class_traits() else []
    if not paths or not await needed(site):
        return skipped(f"{_SETTING} is empty, or no environment is a container")
    missing = await asyncio.to_thread(lambda: [path for path in paths if not Path(path).exists()])
    if missing:
        return warning(
            f"not on this machine: {', '.join(missing)}",
            f"No container starts on a node that lacks a path of {_SETTING}. {ON_NODES}",
        )
    slurm_commands = await asyncio.to_thread(_slurm_commands, paths)
    if not slurm_commands:
        return ok(f"{len(paths)} paths of {_SETTING} exist here, none is a Slurm command")
    if site.is_root:
        return skipped(
            "programs of images are not run as root",
            "Run this command as the Hub's account: sudo -u portal portal doctor",
        )
    apptainer = shutil.which(name_of(site))
    images = {
        entry.image: entry.name
        for entry in site.catalog.environments.values()
        if entry.kind is EnvironmentKind.CONTAINER
        and entry.image
        and os.access(entry.image, os.R_OK)
    }
    if not apptainer or not images:
        return skipped("this machine has no Apptainer, or no image to test with", ON_NODES)
    argv = [apptainer, *await asyncio.to_thread(_options, paths, site.runner.slurm_conf)]
    few = asyncio.Semaphore(2)

    async def tried(image: str, environment: str) -> Result:
        async with few:
            return await _try([*argv, image], environment, slurm_commands)

    results = await asyncio.gather(*(tried(*entry) for entry in images.items()))
    return worst(list(results))


def _slurm_commands(paths: Sequence[str]) -> list[str]:
    """Return Slurm's commands among the paths, and in folders that hold all of Slurm."""
    places = [Path(path) for path in paths]
    programs = [str(place) for place in places if place.name in _COMMANDS and place.is_file()]
    for place in places:
        for folder in (place, place / "bin"):
            programs += [str(folder / name) for name in _COMMANDS if (folder / name).is_file()]
    return list(dict.fromkeys(programs))


def _options(paths: Sequence[str], slurm_conf: str) -> list[str]:
    """Return ``apptainer exec`` up to the image, which may be untrusted and runs as the Hub's
    account: without network, home, processes and sockets of this machine, munge's above all."""
    argv = ["exec", "--containall", "--cleanenv", "--no-eval", "--no-mount", "cwd,hostfs"]
    argv += ["--net", "--network", "none"]
    if slurm_conf:
        argv += ["--env", f"SLURM_CONF={slurm_conf}"]
    for path in paths:
        if not _has_sockets(Path(path)):
            argv += ["--bind", f"{path}:{path}:ro"]
    return argv


def _has_sockets(path: Path) -> bool:
    if path.resolve().is_relative_to("/run"):
        return True
    try:
        inside = [path, *(path.iterdir() if path.is_dir() else ())]
        return any(stat.S_ISSOCK(entry.stat().st_mode) for entry in inside if entry.exists())
    except OSError:
        return True


async def _try(argv: Sequence[str], environment: str, slurm_commands: Sequence[str]) -> Result:
    """Run the commands in one image."""
    answer = await ask([*argv, "/bin/sh", "-c", _SCRIPT, "sh", *slurm_commands], 60)
    lines = [_plain(line).partition(" ") for line in answer.stdout.splitlines()]
    if not any(word in ("ok", "failed") for word, _, _ in lines):
        return skipped(f"'{environment}' does not start here: {_plain(answer.words)}", ON_NODES)
    failed = [rest for word, _, rest in lines if word == "failed"]
    if not failed:
        return ok(f"{len(slurm_commands)} commands run in '{environment}'")
    libraries = sorted({rest for word, _, rest in lines if word == "missing"})
    if libraries:
        return warning(
            f"in '{environment}', Slurm's commands lack {', '.join(libraries)}",
            await _libraries_advice(libraries, slurm_commands),
        )
    command, _, message = failed[0].partition(" ")
    if "GLIBC" in message:
        advice = f"This image is too old for the nodes' commands and cannot use them. {_GUIDE}."
    else:
        advice = f"{_GUIDE} lists the paths that {_SETTING} needs."
    return warning(f"in '{environment}', {command} does not run: {message}", advice)


def _plain(line: str) -> str:
    """Return a line of an image's output, safe for a terminal."""
    return "".join(letter for letter in line[:300] if letter.isprintable())


async def _libraries_advice(libraries: Sequence[str], slurm_commands: Sequence[str]) -> str:
    """Return the line for the configuration, with the paths of the libraries on this machine."""
    places: dict[str, str] = {}
    for command in slurm_commands:
        answer = await ask(["/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", command])
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", answer.stdout, re.MULTILINE):
            folder = await asyncio.to_thread(Path(path).parent.resolve)  # /lib is a link
            places[name] = str(folder / Path(path).name)
    known = [places[name] for name in libraries if name in places]
    if not known:
        return f"Add them to {_SETTING}. {ON_NODES}"
    return f"Add them: {_SETTING} += {known}. {ON_NODES}"
