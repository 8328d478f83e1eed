"""Kernelspecs of kernels in jobs of their own, as the session's server finds them.

They are written by ``job_kernels.specs`` into a folder of Jupyter's path.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FOLDER = "PORTAL_KERNEL_SPECS"  # environment variable: the folder, of mode 700
METADATA = "portal_job_kernel"  # key of a kernelspec's metadata, with what the portal is asked for
# Attribute of a server's kernel manager: a coroutine function of a kernel's id, METADATA and the
# kernelspec's name, awaited before the kernel's program is started.
BEGIN = "portal_begin_job"
# The same, of a kernel's id, awaited when its program was killed: it returns True if the next one
# finds the kernel as it was.
CONTINUE = "portal_continue_job"


def folder() -> Path | None:
    """Return the folder of the kernelspecs; None in a session without such kernels."""
    path = os.environ.get(FOLDER, "")
    return Path(path) / "kernels" if path else None


def in_folder(place: Path | None) -> dict[str, str]:
    """Return the folders of the kernelspecs in ``place``, by name."""
    spec_files = sorted(place.glob("*/kernel.json")) if place is not None else []
    return {path.parent.name.lower(): str(path.parent) for path in spec_files}


async def begin(manager: Any, spec: Any, kernel_id: str) -> None:
    """Let a session's server request the job of a kernel that it starts."""
    ask = getattr(getattr(manager, "parent", None), BEGIN, None)
    if ask is not None and METADATA in spec.metadata:
        await ask(kernel_id, spec.metadata[METADATA], str(getattr(manager, "kernel_name", "")))


async def continue_life(manager: Any, spec: Any, kernel_id: str) -> bool:
    """Let the kernel of a relay that was killed go on with the next relay. Return False if it is
    not a job kernel of a session's server, or did not run yet."""
    ask = getattr(getattr(manager, "parent", None), CONTINUE, None)
    return ask is not None and METADATA in spec.metadata and bool(await ask(kernel_id))
