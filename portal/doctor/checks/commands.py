"""Slurm's commands in containers: run there, in the images of the catalog."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from portal.models.catalog.environment import Kind

from ..command import ask
from ..finding import Result, check, ok, skipped, warning, worst
from ..site import Site
from .apptainer import ON_NODES, name_of, needed

_COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct")
_SETTING = "c.PortalSpawner.commands_in_containers"
_GUIDE = "docs/how-to/command-line.md"
# ld.so(8) lists what a program takes where LD_TRACE_LOADED_OBJECTS is set, and does not run it.
_SCRIPT = """for command; do
  if said=$("$command" --version 2>&1); then echo "ok $command"; continue; fi
  echo "failed $command ${said%%
*}"
  LD_TRACE_LOADED_OBJECTS=1 "$command" 2>/dev/null | while read -r name rest; do
    [ "$rest" != "=> not found" ] || echo "missing $name"
  done
done"""


@check("apptainer-commands", "Slurm's commands reach into containers")
async def commands(site: Site) -> Result:
    kind, name = site.spawner, "commands_in_containers"
    paths = list(site.setting(kind, name)) if name in kind.class_traits() else []
    if not paths or not await needed(site):
        return skipped(f"{_SETTING} is empty, or nothing is a container")
    missing = await asyncio.to_thread(lambda: [path for path in paths if not Path(path).exists()])
    if missing:
        return warning(
            f"not on this machine: {', '.join(missing)}",
            f"Where one of {_SETTING} is missing on a node, no container starts there. {ON_NODES}",
        )
    found = await asyncio.to_thread(_slurm_commands, paths)
    if not found:
        return ok(f"{len(paths)} files and folders of {_SETTING} are here, no command of Slurm's")
    if site.is_root:
        return skipped(
            "what is in images is not run as root",
            "Run it as the Hub's account: sudo -u portal portal doctor",
        )
    apptainer = shutil.which(name_of(site))
    images = {
        one.image: one.name
        for one in site.catalog.environments.values()
        if one.kind is Kind.CONTAINER and one.image and os.access(one.image, os.R_OK)
    }
    if not apptainer or not images:
        return skipped("there is no Apptainer or no image here to run them in", ON_NODES)
    argv = [apptainer, *await asyncio.to_thread(_options, paths, site.runner.slurm_conf)]
    few = asyncio.Semaphore(2)

    async def tried(image: str, environment: str) -> Result:
        async with few:
            return await _try([*argv, image], environment, found)

    results = await asyncio.gather(*(tried(*one) for one in images.items()))
    return worst(list(results))


def _slurm_commands(paths: Sequence[str]) -> list[str]:
    """The commands among the paths, and in folders that hold Slurm whole."""
    places = [Path(path) for path in paths]
    found = [str(place) for place in places if place.name in _COMMANDS and place.is_file()]
    for place in places:
        for folder in (place, place / "bin"):
            found += [str(folder / name) for name in _COMMANDS if (folder / name).is_file()]
    return list(dict.fromkeys(found))


def _options(paths: Sequence[str], slurm_conf: str) -> list[str]:
    """``apptainer exec`` up to the image, which may be a stranger's and runs as the Hub's account:
    without network, home, processes and sockets of this machine, munge's least of all."""
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
        return any(stat.S_ISSOCK(one.stat().st_mode) for one in inside if one.exists())
    except OSError:
        return True


async def _try(argv: Sequence[str], environment: str, found: Sequence[str]) -> Result:
    """Run the commands in one image."""
    answer = await ask([*argv, "/bin/sh", "-c", _SCRIPT, "sh", *found], 60)
    lines = [_plain(line).partition(" ") for line in answer.stdout.splitlines()]
    if not any(word in ("ok", "failed") for word, _, _ in lines):
        return skipped(f"'{environment}' cannot be started here: {_plain(answer.words)}", ON_NODES)
    failed = [rest for word, _, rest in lines if word == "failed"]
    if not failed:
        return ok(f"{len(found)} commands run in '{environment}'")
    libraries = sorted({rest for word, _, rest in lines if word == "missing"})
    if libraries:
        return warning(
            f"in '{environment}' Slurm's commands lack {', '.join(libraries)}",
            await _libraries_mend(libraries, found),
        )
    command, _, said = failed[0].partition(" ")
    if "GLIBC" in said:
        mend = f"The nodes' commands are newer than this image: it does without them. {_GUIDE}."
    else:
        mend = f"{_GUIDE} says what belongs into {_SETTING}."
    return warning(f"in '{environment}' {command} does not run: {said}", mend)


def _plain(line: str) -> str:
    """What an image says, for a terminal."""
    return "".join(letter for letter in line[:300] if letter.isprintable())


async def _libraries_mend(libraries: Sequence[str], found: Sequence[str]) -> str:
    """The line for the configuration, with the places where this machine's commands find them."""
    places: dict[str, str] = {}
    for command in found:
        answer = await ask(["/usr/bin/env", "LD_TRACE_LOADED_OBJECTS=1", command])
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", answer.stdout, re.MULTILINE):
            folder = await asyncio.to_thread(Path(path).parent.resolve)  # /lib is a link
            places[name] = str(folder / Path(path).name)
    known = [places[name] for name in libraries if name in places]
    if not known:
        return f"Add them to {_SETTING}. {ON_NODES}"
    return f"Add them: {_SETTING} += {known}. {ON_NODES}"
