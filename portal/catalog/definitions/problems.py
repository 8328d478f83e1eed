"""Problems of a definition, in words, with file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from pydantic import ValidationError

from portal.models import Frozen
from portal.models.catalog.environment import Environment

from .field_hints import shape_of

Place = tuple[str | int, ...]


class CatalogError(Frozen):
    """Problem of a file. ``line`` counts from 1; None: the file or directory itself.
    ``field``: the key, with dots ("binds.0.source"); "": no key."""

    file: str
    line: int | None
    message: str
    field: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" if place else self.message


def dotted(place: Place) -> str:
    """Return the dotted name of a key: "binds.0.source"."""
    return ".".join(str(step) for step in place)


def explained(
    error: ValidationError,
    file: str = "",
    line_of: Callable[[Place], int] | None = None,
    model: type[Frozen] = Environment,
) -> tuple[CatalogError, ...]:
    """Translate pydantic's errors into words for the definition's author, each with its line."""
    problems = []
    for detail in error.errors(include_url=False):
        place = tuple(step for step in detail["loc"] if step != "[key]")
        name = dotted(place)
        reason = detail["msg"].removeprefix("Value error, ")
        shape = shape_of(place, str(detail.get("ctx", {}).get("pattern", "")))
        match detail["type"]:
            case "missing":
                message = f"'{name}' is missing"
            case "extra_forbidden":
                near = difflib.get_close_matches(str(place[-1]), model.model_fields, 1)
                hint = f"; did you mean '{near[0]}'?" if near and len(place) == 1 else ""
                message = f"'{name[:100]}' is not a known key{hint}"
            case "string_type" if isinstance(detail["input"], int | float):
                message = f"'{name}' must be text: put it in quotes"
            case "string_pattern_mismatch" if shape:
                message = f"'{name[:100]}' {shape}"
            case _:
                message = f"'{name[:100]}': {reason}" if name else reason
        line = line_of(place) if line_of else None
        problems.append(CatalogError(file=file, line=line, message=message, field=name[:200]))
    return tuple(problems)
