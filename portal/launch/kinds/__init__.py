"""The kinds of sessions: one file each, one line each in ``KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidRequest
from ..course import server_of
from .course import CourseSession
from .jupyterlab import JupyterLab
from .kind import Kind
from .marimo import Marimo
from .preview import Preview
from .rehearsal import Rehearsal
from .room import Room
from .tensorboard import TensorBoard

KINDS: tuple[type[Kind], ...] = (
    JupyterLab,  # what a session is where nothing else is asked for
    CourseSession,
    Rehearsal,
    Preview,
    Room,
    TensorBoard,
    Marimo,
)
USUAL = KINDS[0]
OFFERED = {kind.name: kind for kind in KINDS if kind.offered}
OWN_OPTIONS = tuple(dict.fromkeys(kind.option for kind in KINDS))


def kind_of(options: Mapping[str, Any]) -> Kind:
    """The kind that ``user_options`` ask for, with its own options. Raises InvalidRequest."""
    named = options.get("kind")
    if named not in (None, "") and (not isinstance(named, str) or named not in OFFERED):
        raise InvalidRequest(f"'kind' must be one of: {', '.join(OFFERED)}.", "kind")
    found = [one for kind in KINDS[1:] if (one := kind.read(options)) is not None]
    if len(found) > 1:
        raise found[0].beside(found[1])
    return found[0] if found else USUAL()


def of_server(server: str) -> type[Kind] | None:
    """The kind to which a server's name belongs; None: it is free for others."""
    named = server_of(server)
    return next((kind for kind in KINDS if named and kind.prefix == named.kind), None)
