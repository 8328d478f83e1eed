"""The kinds of sessions: one file each, one line each in ``KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import InvalidRequest
from ...models.session.session import SessionRecord
from ..course import OPTION as COURSE
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


class Unknown(Kind):
    """Kind that this version of the portal does not have."""

    name = ""
    title = "a session"


KINDS: tuple[type[Kind], ...] = (
    JupyterLab,  # the default
    Rehearsal,
    Preview,
    Room,
    TensorBoard,
    Marimo,
    JobKernel,
    Run,
)
USUAL = KINDS[0]
OFFERED = {kind.name: kind for kind in KINDS if kind.offered}
PROGRAMS = {kind.name: kind for kind in KINDS if issubclass(kind, ProgramKind)}
_STORED = {kind.name: kind for kind in KINDS}
OWN_OPTIONS = (COURSE, *dict.fromkeys(kind.option for kind in KINDS))


def requested_kind(options: Mapping[str, Any]) -> Kind:
    """Return the kind in ``user_options``, with its own options. Raises InvalidRequest."""
    named = options.get("kind")
    if named not in (None, "") and (not isinstance(named, str) or named not in OFFERED):
        raise InvalidRequest(f"'kind' must be one of: {', '.join(OFFERED)}.", "kind")
    choices = [choice for kind in KINDS if (choice := kind.read(options)) is not None]
    if len(choices) > 1:
        raise choices[0].beside(choices[1])
    return choices[0] if choices else USUAL()


class Address(NamedTuple):
    """Kind and course in a server's name; "" for no course."""

    kind: type[Kind]
    space: str


def reserved_for(server: str) -> Address | None:
    """Return for what the name of a requested server is reserved; None if it is free for sessions
    of a user's own. Of a session, `kind_of` knows more."""
    spaces = ((kind, kind.space_at(server)) for kind in KINDS)
    return next((Address(kind, space) for kind, space in spaces if space is not None), None)


def stored_kind(work: str) -> type[Kind]:
    """Return the kind of a session by its stored name."""
    return _STORED.get(work, Unknown)


def kind_of(record: SessionRecord) -> type[Kind]:
    """Return the kind of a session."""
    return stored_kind(record.work)
