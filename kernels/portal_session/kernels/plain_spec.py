"""Kernelspecs that are read without jupyter_client, which takes a tenth of a second to load."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_core.paths import jupyter_path

from .container import VARIABLE as CONTAINER

VARIABLE = "PORTAL_KERNELS"  # a JSON list of {"name", "title", "language"}; empty: all are shown


class PlainSpec(NamedTuple):
    """Kernelspec, with the names of jupyter_client's KernelSpec."""

    argv: list[str]
    env: dict[str, str]
    language: str
    interrupt_mode: str
    metadata: dict[str, Any]
    resource_dir: str


def named(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the titles of the kernels that the environment names, by name, in its order."""
    try:
        kernels = json.loads(environ.get(VARIABLE, "") or "[]")
        return {str(kernel["name"]): str(kernel["title"]) for kernel in kernels}
    except (ValueError, KeyError, TypeError):
        return {}


def plain_spec(name: str) -> PlainSpec | None:
    """Return the kernelspec of a kernel that the environment names. None for any other, for those
    of a container beside this server, and for what is no usable file: see `SessionKernelSpecs`."""
    titles = named(os.environ)
    if os.environ.get(CONTAINER) or (titles and name not in titles):
        return None
    for parent in jupyter_path("kernels"):
        folder = Path(parent, name)
        with contextlib.suppress(OSError):
            return _read(folder)
    return None


def _read(folder: Path) -> PlainSpec | None:
    """Return the kernelspec of a folder; None if it cannot be used. Raises OSError."""
    try:
        content = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
        return PlainSpec(
            argv=[str(word) for word in content["argv"]],
            env={str(name): str(value) for name, value in content.get("env", {}).items()},
            language=str(content.get("language", "")),
            interrupt_mode=str(content.get("interrupt_mode", "signal")),
            metadata=dict(content.get("metadata", {})),
            resource_dir=str(folder),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
