"""Patch of JupyterHub, with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Patch:
    """Change of JupyterHub's own objects, made by ``apply`` alone.

    ``changes`` names what is replaced, as "module:qualified.name". ``why`` has the figure if the
    reason is one. ``upstream`` is the address of a thread, or "none". ``until`` says what would
    make the patch unnecessary. ``apply`` may be called again, and does nothing then.
    """

    name: str
    changes: tuple[str, ...]
    why: str
    upstream: str
    until: str
    apply: Callable[[], None]


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
