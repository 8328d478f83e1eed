"""Tables for a terminal, of values that users wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def printable(item: Mapping[str, Any], name: str) -> str:
    """Return a value of ``item`` as text that a terminal cannot take for a command; "" for none."""
    value = item.get(name)
    text = "" if value is None else str(value)
    return "".join(char if char.isprintable() else "?" for char in text)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of which has the heads, with columns as wide as their longest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows
    )
