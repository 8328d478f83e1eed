"""Container beside this server, in which its kernels and terminals run.

The argv of ``apptainer exec`` comes from the portal (portal/launch/container.py), as JSON in an
environment variable. Values reach the container as APPTAINERENV_… and never on a command line,
which ``ps`` shows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..measurements.gpus import vendor_of
from ..packing.places import bound

HERE = "portal_beside"  # in a kernelspec's metadata: it runs on the node, not in the container

VARIABLE = "PORTAL_CONTAINER"
IMAGE = "PORTAL_IMAGE"  # chosen by deploy/session.sh: the SIF, or the node's unpacked copy
# The names that deploy/session.sh would have passed into the container, separated by spaces.
PASSED = "PORTAL_PASSED"
# Passed as well: the variables of the GPUs' vendor and of the Slurm job (deploy/session.sh passes
# the same into containers), of Jupyter and its terminals, and the directories of `places`.
_NAMES = frozenset(
    {
        "SLURMD_NODENAME",
        "USER",
        "LOGNAME",
        "TERM",
        "IPYTHONDIR",
        "PIP_BREAK_SYSTEM_PACKAGES",
        "PYTHONSAFEPATH",
    }
)
_PREFIXES = ("JPY_", "JUPYTER_", "JUPYTERHUB_", "PORTAL_", "SLURM_")
_OF_APPTAINER = ("APPTAINERENV_", "SINGULARITYENV_")
# bash keeps the PATH of the image; a login shell would set the distribution's. Its last settings
# come by a descriptor: the container has no file of this package.
_SHELL = """SHELL=$(command -v bash || command -v sh); export SHELL
case $SHELL in */bash) ;; *) exec "${SHELL##*/}" ;; esac
exec bash --rcfile /dev/fd/9 9<<'PORTAL'
[ ! -r ~/.bashrc ] || . ~/.bashrc
%sexec 9<&-
PORTAL
"""
_PROMPT = "# -- The prompt"  # where it begins in shell.sh


class Container(NamedTuple):
    """Container: ``exec`` is the argv up to the image; ``roots`` are the folders shared with the
    node."""

    exec: tuple[str, ...]
    image: str
    roots: tuple[str, ...]
    passed: frozenset[str] = frozenset()
    packed: tuple[tuple[Path, Path], ...] = ()  # images of packed folders, and where they are bound

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Container | None:
        """Parse PORTAL_CONTAINER; return None for a server that has no container beside it."""
        try:
            config = json.loads(environ.get(VARIABLE, ""))
            exec_, image, roots = config["exec"], config["image"], config["roots"]
        except (ValueError, KeyError, TypeError):
            return None
        return cls(
            exec=tuple(exec_),
            image=environ.get(IMAGE) or image,
            roots=tuple(roots),
            passed=frozenset({*environ.get(PASSED, "").split(), *vendor_of(environ).variables}),
            packed=tuple(bound(environ)),
        )

    def command(self, argv: Sequence[str], directory: str = "", shared: str = "") -> list[str]:
        """Return the command of ``argv`` in the container; its working directory is ``directory``
        if the container has that, else the home. ``shared``: a folder of the node that is to be
        seen in it at the same path, without ":" and "," (apptainer-exec(1))."""
        options = ["--pwd", directory] if self.has(directory) else []
        if shared and not self.has(shared):
            options += ["--bind", shared]
        for image, folder in self.packed:
            if image.is_file():  # else it was deleted meanwhile
                options += ["--bind", f"{image}:{folder}:image-src=/"]
        return [*self.exec, *options, self.image, *argv]

    def shell(self) -> list[str]:
        """Return the command of a terminal."""
        rc = Path(__file__).with_name("shell.sh").read_text(encoding="utf-8")
        return self.command(["/bin/sh", "-c", _SHELL % rc[rc.index(_PROMPT) :]])

    def has(self, directory: str) -> bool:
        """Return True if the container sees this folder of the node, at the same path."""
        real = os.path.normpath(directory) if directory else ""
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots)

    def environment(self, environ: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
        """Return the environment of Apptainer's own process: ``environ``, and the variables for
        the container under the names that Apptainer passes on. ``more``: further names to pass."""
        prefix = _OF_APPTAINER[os.path.basename(self.exec[0]) == "singularity"]  # noqa: PTH119
        names = self.passed | _NAMES | frozenset(more)
        inside = {
            f"{prefix}{name}": value
            for name, value in environ.items()
            if (name in names or name.startswith(_PREFIXES))
            and name not in (VARIABLE, PASSED, "PATH", "HOME")
        }
        if environ.get("SHELL"):
            inside[f"{prefix}SHELL"] = "/bin/sh"  # the account's own may be missing there
        if environ.get("PYTHONUSERBASE"):
            # A person's own programs take precedence over the image's.
            inside[f"{prefix}PREPEND_PATH"] = f"{environ['PYTHONUSERBASE']}/bin"
        own = {name: value for name, value in environ.items() if not name.startswith(_OF_APPTAINER)}
        return {**own, **inside}
