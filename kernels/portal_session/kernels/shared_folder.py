"""Kernels that start in the folder of a project, into which its other members write: none loads a
file from there by itself. What a cell imports is found there, as everywhere."""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from pathlib import Path

VARIABLE = "PORTAL_PROJECT"
_MODULES = ("ipykernel_launcher", "ipykernel")
# ``python -m`` looks into the working directory first, for the module itself and all that it needs.
# ipykernel adds the directory once it has started. jedi is what it imports later by itself, at the
# first completion. Any version of Python may read this.
_START = """\
import sys
sys.path[:] = [place for place in sys.path if place]
import runpy
try:
    import jedi
except Exception:
    pass
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
# Unset, R looks for them in the working directory first (R, ``?Startup``).
_OF_R = {"R_PROFILE_USER": ".Rprofile", "R_ENVIRON_USER": ".Renviron"}


def without_shared_files(
    language: str, argv: Sequence[str], env: MutableMapping[str, str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the command of a kernel that loads nothing from its working directory at its start,
    and the names of the variables that were added to ``env`` for that."""
    command = list(argv)
    if language.lower() == "r" and command:
        home = env.get("HOME") or str(Path.home())
        added = [name for name in _OF_R if name not in env]
        env.update({name: os.path.join(home, _OF_R[name]) for name in added})
        if Path(command[0]).name == "R" and "--no-restore" not in command:
            command.insert(1, "--no-restore-data")
        return command, tuple(added)
    for at, (option, module) in enumerate(zip(command, command[1:])):
        if option == "-m" and module in _MODULES:
            command[at : at + 2] = ["-c", _START.format(module=module)]
            break
    return command, ()
