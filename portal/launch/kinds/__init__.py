"""The kinds of sessions: one file each, and one line each here."""

from __future__ import annotations

from .job_kernel import JobKernel
from .jupyterlab import JupyterLab
from .kind import Kind
from .marimo import Marimo
from .preview import Preview
from .program import ProgramKind
from .registry import (
    KINDS,
    USUAL,
    Address,
    Unknown,
    add_kinds,
    kind_of,
    offered_kinds,
    own_options,
    requested_kind,
    reserved_for,
    stored_kind,
)
from .rehearsal import Rehearsal
from .room import Room
from .run import Run
from .tensorboard import TensorBoard

__all__ = [
    "KINDS",
    "USUAL",
    "Address",
    "Kind",
    "Unknown",
    "add_kinds",
    "kind_of",
    "offered_kinds",
    "own_options",
    "program_kinds",
    "requested_kind",
    "reserved_for",
    "stored_kind",
]

add_kinds(JupyterLab, Rehearsal, Preview, Room, TensorBoard, Marimo, JobKernel, Run)


def program_kinds() -> dict[str, type[ProgramKind]]:
    """Return the kinds that are programs of environments, by name."""
    return {kind.name: kind for kind in KINDS if issubclass(kind, ProgramKind)}
