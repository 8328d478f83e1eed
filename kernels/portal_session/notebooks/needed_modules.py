"""Modules that a notebook needs, read from its text: nothing is executed.

Only what is surely imported counts: whole statements of a cell, not those of a function, a
condition or a ``try``, which have another way out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..runs.local_modules import python_of
from ..runs.source import language_of, text_of

MOST = 50  # modules
_LARGEST = 100_000  # characters of a cell
_CELLS = 500
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# With these in a notebook, what it finds is not known before it runs.
_CHANGES = re.compile(r"\bsys\.path\b|\b(pip3?|conda|mamba|uv)\s+(pip\s+)?(install|add)\b")


def needed_modules(notebook: Mapping[str, Any]) -> list[str]:
    """Return the top-level modules that a Python notebook imports, in its order; none if it
    installs packages itself or sets the path."""
    if language_of(notebook) != "python":
        return []
    cells = [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"][:_CELLS]
    texts = [text for cell in cells if len(text := text_of(cell)) <= _LARGEST]
    if any(_CHANGES.search(text) for text in texts):
        return []
    names = dict.fromkeys(name for text in texts for name in _imported(python_of(text)))
    return [name for name in names if _NAME.fullmatch(name)][:MOST]


def _imported(text: str) -> Iterator[str]:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
