"""Local modules of a source: the Python files beside it that it imports, and those that they do.

They are found as text, nothing is executed: an import of a computed name is not seen. What is not
beside the source is the environment's, which has a version of its own.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from . import RunError
from .disk import read_regular
from .source import Source, language_of, text_of

MOST = 500
_IMPORTS = ("import_module", "importlib.import_module", "__import__")
_INSTALLED = ("site-packages", "dist-packages")  # folders that are an environment's, not a source's
LARGEST = 20 * 1024 * 1024  # bytes of all of them
_MAGIC = re.compile(r"^([ \t]*)([%!?].*|[\w.]+\?{1,2})$", re.MULTILINE)  # of IPython
_OF_SHELL = re.compile(r"\s*%%(?!time|timeit|capture|prun|gpu)")  # a cell that is not Python
_PLAIN = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import|import[ \t]+([.\w, \t]+))", re.MULTILINE
)


class LocalModule(NamedTuple):
    """Module by its full ``name``, and its file with its ``content``."""

    name: str
    path: Path
    content: bytes


def local_modules(source: Source, folder: Path) -> list[LocalModule]:
    """Return the local modules of a source, in the order of their names. ``folder``: the source's,
    without links. Raises RunError if they are too many or too large, or cannot be read."""
    roots = [folder]
    modules: dict[str, LocalModule] = {}
    size = 0
    texts = deque([("", text) for text in _texts(source)])
    while texts:
        package, text = texts.popleft()
        for name in _imported(text, package, roots):
            for full, path in _files(name, roots):
                if full in modules:
                    continue
                try:
                    content = read_regular(path, LARGEST)
                except OSError as error:
                    raise RunError(
                        f"The module '{path}' cannot be read: {error.strerror}. The source imports "
                        "it, so the run needs it."
                    ) from None
                size += len(content)
                if len(modules) == MOST or size > LARGEST:
                    raise RunError(
                        f"'{source.path.name}' imports more than {MOST} modules next to it, or "
                        f"more than {LARGEST >> 20} MB. Install them as a package of the "
                        "environment."
                    )
                modules[full] = LocalModule(full, path, content)
                parent = full if path.name == "__init__.py" else full.rpartition(".")[0]
                texts.append((parent, content.decode("utf-8", "replace")))
    return [modules[name] for name in sorted(modules)]


def _texts(source: Source) -> list[str]:
    """Return the Python of a source: that of its cells."""
    if source.notebook is None:
        return [source.content.decode("utf-8", "replace")]
    if language_of(source.notebook) != "python":
        return []
    cells = (text_of(cell) for cell in source.notebook["cells"] if cell.get("cell_type") == "code")
    return [python_of(text) for text in cells]


def python_of(cell: str) -> str:
    """Return the Python of a cell's text, without IPython's magic; "" for another language."""
    return "" if _OF_SHELL.match(cell) else _MAGIC.sub(r"\1pass", cell)


def _imported(text: str, package: str, roots: list[Path]) -> Iterator[str]:
    """Yield the names that a text may import. Folders that it adds to sys.path by their names are
    added to ``roots``."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        for match in _PLAIN.finditer(text):
            names = (match[1] or match[2]).split(",")
            yield from (name.split()[0] for name in names if name.split())
        return
    calls = [(node, _last_text(node)) for node in nodes if isinstance(node, ast.Call)]
    for call, argument in calls:
        if argument and ast.unparse(call.func) in ("sys.path.append", "sys.path.insert"):
            with suppress(OSError, RuntimeError, ValueError):  # such as a name that is too long
                root = (roots[0] / argument).resolve(strict=True)
                if root not in roots and root.name not in _INSTALLED:
                    roots.append(root)
        elif argument and ast.unparse(call.func) in _IMPORTS:
            yield argument
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: package.count(".") + 2 - node.level]
                base = ".".join([*above, *([base] if base else ())])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _last_text(call: ast.Call) -> str:
    """Return the last argument of a call, if that is a text; "" otherwise."""
    last = call.args[-1] if call.args else None
    value = last.value if isinstance(last, ast.Constant) else ""
    return value if isinstance(value, str) and "\0" not in value else ""


def _files(name: str, roots: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the local modules that the import of a name loads: packages, and the module itself."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts) or parts[0] in sys.builtin_module_names:
        return
    for root in roots:
        place, files = root, []
        for at, part in enumerate(parts, 1):
            package, module = place / part / "__init__.py", place / f"{part}.py"
            # Not Path.exists, which raises an error for a folder that is closed to this user.
            path = next((path for path in (package, module) if os.access(path, os.F_OK)), None)
            if path is not None:
                files.append((".".join(parts[:at]), path))
            place = place / part
        if files:
            yield from files
            return
