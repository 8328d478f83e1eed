"""Registry of kinds: the portal's own, then those that a site adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import ConfigurationError, InvalidRequest
from ...models.session.session import SessionRecord
from ...spaces.registry import space_options
from .jupyterlab import JupyterLab
from .kind import Kind


class Unknown(Kind):
    """Kind that this version of the portal does not have, or a site no longer adds."""

    name = ""
    title = "a session"


class Address(NamedTuple):
    """Kind and space in a server's name; "" for no space."""

    kind: type[Kind]
    space: str


USUAL = JupyterLab
KINDS: list[type[Kind]] = []  # the usual one first


def add_kinds(*kinds: type[Kind]) -> None:
    """Add kinds, each once: a process adds them before it serves. Raises ConfigurationError for one
    whose name, or prefix of servers, is another's."""
    for kind in kinds:
        if kind in KINDS:
            continue
        for other in KINDS:
            if kind.name == other.name:
                raise ConfigurationError(f"Two kinds of sessions have the name '{kind.name}'.")
            if kind.prefix and kind.prefix == other.prefix:
                raise ConfigurationError(
                    f"Servers of the kinds '{kind.name}' and '{other.name}' have the same prefix, "
                    f"'{kind.prefix}'."
                )
        KINDS.append(kind)


def offered_kinds() -> dict[str, type[Kind]]:
    """Return the kinds on the launch page by name, in its order."""
    return {kind.name: kind for kind in KINDS if kind.offered}


def own_options() -> tuple[str, ...]:
    """Return the keys of ``user_options`` that select a kind."""
    return (*space_options(), *dict.fromkeys(kind.option for kind in KINDS))


def requested_kind(options: Mapping[str, Any]) -> Kind:
    """Return the kind in ``user_options``, with its own options. Raises InvalidRequest."""
    named, offered = options.get("kind"), offered_kinds()
    if named not in (None, "") and (not isinstance(named, str) or named not in offered):
        raise InvalidRequest(f"'kind' must be one of: {', '.join(offered)}.", "kind")
    asked = [kind for kind in KINDS if kind.option == Kind.option or kind.option in options]
    choices = [choice for kind in asked if (choice := kind.read(options)) is not None]
    if len(choices) > 1:
        raise choices[0].beside(choices[1])
    return choices[0] if choices else USUAL()


def reserved_for(server: str) -> Address | None:
    """Return for what the name of a requested server is reserved; None if it is free for sessions
    of a user's own. Of a session, `kind_of` knows more."""
    spaces = ((kind, kind.space_at(server)) for kind in KINDS if server.startswith(kind.prefix))
    return next((Address(kind, space) for kind, space in spaces if space is not None), None)


def stored_kind(work: str) -> type[Kind]:
    """Return the kind of a session by its stored name."""
    return next((kind for kind in KINDS if kind.name == work), Unknown)


def kind_of(record: SessionRecord) -> type[Kind]:
    """Return the kind of a session."""
    return stored_kind(record.work)
