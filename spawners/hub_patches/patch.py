"""Patch of JupyterHub, with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Patch:
    """Change of JupyterHub's own objects."""

    name: str
    changes: tuple[str, ...]  # what is replaced, as "module:qualified.name"
    why: str  # with the figure if the reason is one
    upstream: str  # address of a thread, or "none"
    until: str  # what would make the patch unnecessary
    apply: Callable[[], None]  # makes the change, alone; called again, it does nothing


def wrap_once(owner: type, method: str, wrap: Callable[[Any], Any], mark: str) -> None:
    """Replace a method by ``wrap(method)``, which gets the attribute ``mark``; one that has it
    already stays."""
    plain = getattr(owner, method)
    if not hasattr(plain, mark):
        wrapped = wrap(plain)
        setattr(wrapped, mark, True)
        setattr(owner, method, wrapped)


def method_patch(
    owner: type, method: str, wrap: Callable[[Any], Any], mark: str, **reasons: str
) -> Patch:
    """Return the patch that wraps a method (``wrap_once``); ``reasons`` are Patch's fields."""
    place = f"{owner.__module__}:{owner.__qualname__}.{method}"
    return Patch(changes=(place,), apply=partial(wrap_once, owner, method, wrap, mark), **reasons)


def replace_handlers(tables: Iterable[list[Any]], instead: Mapping[type, type]) -> None:
    """Replace JupyterHub's handlers in its tables of routes."""
    for rows in tables:
        rows[:] = [(row[0], instead.get(row[1], row[1]), *row[2:]) for row in rows]
