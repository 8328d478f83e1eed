"""The container beside this server: where its kernels and terminals run.

The argv of ``apptainer exec`` comes from the portal (portal/launch/container.py), as JSON in an
environment variable. Values reach the container as APPTAINERENV_… and never on a command line,
which ``ps`` shows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..measurements.gpus import vendor_of

HERE = "portal_beside"  # in a kernelspec's metadata: it runs on the node, not in the container

VARIABLE = "PORTAL_CONTAINER"
IMAGE = "PORTAL_IMAGE"  # what deploy/session.sh chose: the SIF, or the node's unpacked copy
# The names that deploy/session.sh would have passed into the container, separated by spaces.
PASSED = "PORTAL_PASSED"
# Beside those: the variables of the GPUs' vendor and what Slurm gave the job (deploy/session.sh
# passes the same into containers), what Jupyter and its terminals set, and the places of `places`.
_NAMES = frozenset(
    {
        "SLURMD_NODENAME",
        "USER",
        "LOGNAME",
        "TERM",
        "IPYTHONDIR",
        "PIP_BREAK_SYSTEM_PACKAGES",
    }
)
_PREFIXES = ("JPY_", "JUPYTER_", "JUPYTERHUB_", "PORTAL_", "SLURM_")
_OF_APPTAINER = ("APPTAINERENV_", "SINGULARITYENV_")
# bash keeps the PATH of the image: a login shell would take the distribution's.
_SHELL = 'SHELL=$(command -v bash || command -v sh); export SHELL; exec "${SHELL##*/}"'


@dataclass(frozen=True)
class Container:
    """``exec``: argv up to the image; ``roots``: folders that it has in common with the node."""

    exec: tuple[str, ...]
    image: str
    roots: tuple[str, ...]
    passed: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Container | None:
        """From PORTAL_CONTAINER; None for a server that has no container beside it."""
        try:
            found = json.loads(environ.get(VARIABLE, ""))
            exec_, image, roots = found["exec"], found["image"], found["roots"]
        except (ValueError, KeyError, TypeError):
            return None
        return cls(
            exec=tuple(exec_),
            image=environ.get(IMAGE) or image,
            roots=tuple(roots),
            passed=frozenset({*environ.get(PASSED, "").split(), *vendor_of(environ).variables}),
        )

    def command(self, argv: Sequence[str], directory: str = "") -> list[str]:
        """``argv`` in the container; its working directory is ``directory`` where the container
        has that, else the home."""
        there = ["--pwd", directory] if self.has(directory) else []
        return [*self.exec, *there, self.image, *argv]

    def shell(self) -> list[str]:
        """The command of a terminal."""
        return self.command(["/bin/sh", "-c", _SHELL])

    def has(self, directory: str) -> bool:
        """Whether the container sees this folder of the node, at the same place."""
        real = os.path.normpath(directory) if directory else ""
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots)

    def environment(self, environ: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
        """For Apptainer's own process: ``environ``, and what of it goes into the container under
        the names that Apptainer passes on. ``more``: further names that go in."""
        prefix = _OF_APPTAINER[os.path.basename(self.exec[0]) == "singularity"]  # noqa: PTH119
        names = self.passed | _NAMES | frozenset(more)
        inside = {
            f"{prefix}{name}": value
            for name, value in environ.items()
            if (name in names or name.startswith(_PREFIXES))
            and name not in (VARIABLE, PASSED, "PATH", "HOME")
        }
        if environ.get("SHELL"):
            inside[f"{prefix}SHELL"] = "/bin/sh"  # the account's own may not be there
        if environ.get("PYTHONUSERBASE"):
            # What a person installs comes before the image's own programs.
            inside[f"{prefix}PREPEND_PATH"] = f"{environ['PYTHONUSERBASE']}/bin"
        own = {name: value for name, value in environ.items() if not name.startswith(_OF_APPTAINER)}
        return {**own, **inside}
