"""The kinds of sessions: one file each, one line each in ``KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidRequest
from .course import CourseSession
from .course_kernel import CourseKernel
from .course_run import CourseRun
from .job_kernel import JobKernel
from .jupyterlab import JupyterLab
from .kind import Kind
from .marimo import Marimo
from .preview import Preview
from .program import ProgramKind
from .rehearsal import Rehearsal
from .room import Room
from .run import Run
from .tensorboard import TensorBoard

KINDS: tuple[type[Kind], ...] = (
    JupyterLab,  # the default
    CourseSession,
    Rehearsal,
    Preview,
    Room,
    TensorBoard,
    Marimo,
    JobKernel,
    CourseKernel,
    Run,
    CourseRun,
)
USUAL = KINDS[0]
OFFERED = {kind.name: kind for kind in KINDS if kind.offered}
PROGRAMS = {kind.name: kind for kind in KINDS if issubclass(kind, ProgramKind)}
OWN_OPTIONS = tuple(dict.fromkeys(kind.option for kind in KINDS))


def kind_of(options: Mapping[str, Any]) -> Kind:
    """Return the kind in ``user_options``, with its own options. Raises InvalidRequest."""
    named = options.get("kind")
    if named not in (None, "") and (not isinstance(named, str) or named not in OFFERED):
        raise InvalidRequest(f"'kind' must be one of: {', '.join(OFFERED)}.", "kind")
    choices = [choice for kind in KINDS[1:] if (choice := kind.read(options)) is not None]
    if len(choices) > 1:
        raise choices[0].beside(choices[1])
    return choices[0] if choices else USUAL()


def of_server(server: str) -> type[Kind] | None:
    """Return the kind to which a server's name belongs; None if it is free for others."""
    return next((kind for kind in KINDS if kind.owns(server)), None)


def serves(server: str) -> bool:
    """Return True if the session on a server of this name has a page."""
    owner = of_server(server)
    return owner is None or owner.serves
