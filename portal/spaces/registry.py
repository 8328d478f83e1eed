"""Registry of types of spaces. Features add theirs (portal/features.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigurationError
from ..models.space import Space
from .job_space import MINE, JobSpace

SPACES: list[type[JobSpace]] = []


def add_spaces(*types: type[JobSpace]) -> None:
    """Add types of spaces, each once. Raises ConfigurationError for one whose noun or option is
    another's."""
    for added in types:
        if added in SPACES:
            continue
        for other in SPACES:
            if added.noun == other.noun or added.option == other.option:
                raise ConfigurationError(f"Two types of spaces are called '{added.noun}'.")
        SPACES.append(added)


def space_options() -> tuple[str, ...]:
    """Return the keys of ``user_options`` that name a space."""
    return tuple(added.option for added in SPACES)


def space_nouns(ending: str = "") -> str:
    """Return what spaces are called here: "project or team"; ``ending``: "s" for the plural."""
    return " or ".join(f"{added.noun}{ending}" for added in SPACES)


def requested_space(options: Mapping[str, Any]) -> JobSpace:
    """Return the space that ``user_options`` name, or the user's own. Raises InvalidRequest."""
    for added in SPACES:
        if (space := added.named(options.get(added.option))) is not None:
            return space
    return MINE


def space_type_at(server: str) -> type[JobSpace] | None:
    """Return the type of spaces that reserves the name of a server; None if it is free."""
    return next((added for added in SPACES if added.reserves(server) is not None), None)


def space_type_of(server: str, options: Mapping[str, Any]) -> type[JobSpace] | None:
    """Return the type of the space of a session, by the name of its server or its options, in which
    those of a kernel or a run are one value; None for its user's own."""
    nested = [value for value in options.values() if isinstance(value, Mapping)]
    named = (a for a in SPACES if any(values.get(a.option) for values in (options, *nested)))
    return space_type_at(server) or next(named, None)


def space_type_of_group(group: str) -> type[JobSpace] | None:
    """Return the type of spaces whose members are in Hub groups of such names, in any case."""
    name = group.casefold()
    return next((a for a in SPACES if a.group_prefix and name.startswith(a.group_prefix)), None)


def job_space(space: Space) -> JobSpace:
    """Return a space as a request names it."""
    return type_of(space)(name=space.name)


def type_of(space: Space) -> type[JobSpace]:
    """Return the type of a space by its definition."""
    return next((added for added in SPACES if added.noun == space.noun), JobSpace)
