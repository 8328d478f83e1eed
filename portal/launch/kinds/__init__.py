"""The kinds of sessions. Features add theirs (portal/features.py)."""

from __future__ import annotations

from .jupyterlab import JupyterLab
from .kind import Kind
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

__all__ = [
    "KINDS",
    "USUAL",
    "Address",
    "JupyterLab",
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

add_kinds(JupyterLab)


def program_kinds() -> dict[str, type[ProgramKind]]:
    """Return the kinds that are programs of environments, by name."""
    return {kind.name: kind for kind in KINDS if issubclass(kind, ProgramKind)}
