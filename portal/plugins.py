"""Parts from other packages: entry points, whose names stand in settings.

They run with the rights of the Hub. So nothing is loaded because it is installed, only what a
setting names, and no package can replace a part of the portal itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from traitlets import Enum, TraitError

from .errors import ConfigurationError

_Part = TypeVar("_Part")


@cache
def load(group: str, name: str) -> Any:
    """Return the object of the entry point ``name`` of ``data_scientist_portal.<group>``.

    Raises ConfigurationError if no package has it, or more than one, if it cannot be imported, or
    if the object says another name of itself.
    """
    point = _entry_point(group, name)
    try:
        part = point.load()
    except Exception as error:
        raise ConfigurationError(
            f"The {point.group} '{name}' cannot be loaded from {point.value}: "
            f"{type(error).__name__}: {error}. Repair its package, or name another one."
        ) from error
    if getattr(part, "name", name) != name:
        raise ConfigurationError(
            f"The {point.group} '{name}' is called {part.name!r} in {point.value}. Give both the "
            "same name."
        )
    return part


def part_of(table: Mapping[str, _Part], group: str, name: str) -> _Part:
    """Return what ``name`` means: a row of the portal's own ``table``, else an entry point.

    Raises ConfigurationError as ``load`` does.
    """
    return table[name] if name in table else load(group, name)


class PluginName(Enum[str]):
    """Trait for the name of a row of the portal's own table, or of an installed entry point, which
    is not loaded yet."""

    def __init__(self, table: Mapping[str, Any], group: str, **kwargs: Any) -> None:
        super().__init__(list(table), **kwargs)
        self.group = group

    def validate(self, obj: Any, value: Any) -> Any:
        """Return ``value``; raise TraitError, with the way out, for an unknown name."""
        if isinstance(value, str) and value not in (self.values or ()):
            try:
                _entry_point(self.group, value)
            except ConfigurationError as error:
                raise TraitError(f"{error.message} The portal's own: {self.info()}.") from None
            return value
        return super().validate(obj, value)


def _entry_point(group: str, name: str) -> EntryPoint:
    group = f"data_scientist_portal.{group}"
    points = {point.value: point for point in entry_points(group=group, name=name)}
    if not points:
        raise ConfigurationError(
            f"No installed package has the {group} '{name}'. Install its package for the Python "
            "of the Hub, or change the setting that names it."
        )
    if len(points) > 1:
        raise ConfigurationError(
            f"More than one package has the {group} '{name}': {', '.join(sorted(points))}. "
            "Uninstall all but one."
        )
    return next(iter(points.values()))
