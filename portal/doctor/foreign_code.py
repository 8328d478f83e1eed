"""Code of other packages that the portal changes, or uses although it is private.

``foreign_code.txt`` has a line for each such part, as of its last review: a digest of its source,
its name, and the files of the portal that depend on it. The sources are read from files, since
those in memory may be patched. ``python -m portal.doctor.foreign_code`` renews the digests.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).with_suffix(".txt")
_HEAD = "# digest, module:qualified.name, files of the portal (portal/doctor/foreign_code.py)\n"


class Part(NamedTuple):
    """Part of another package. ``name``: "module:qualified.name", of a function, a class or an
    attribute; ``files``: those of the portal that change or use it."""

    digest: str
    name: str
    files: tuple[str, ...]

    @property
    def package(self) -> str:
        return self.name.split(":")[0].split(".")[0]


def known_parts() -> list[Part]:
    """Return the parts that were reviewed, by name."""
    lines = _TABLE.read_text().splitlines()[1:]
    return [Part(digest, name, tuple(files)) for digest, name, *files in map(str.split, lines)]


def installed(package: str) -> Path | None:
    """Return the folder that an importable package is in; None if it is not installed."""
    spec = find_spec(package)
    return Path(spec.origin).parents[1] if spec and spec.origin else None


def changed_parts(
    folder_of: Callable[[str], Path | None] = installed,
) -> Iterator[tuple[Part, str]]:
    """Yield the parts that differ from their last review, with the reason, in packages that
    ``folder_of`` returns the folder of. Reads files."""
    for part in known_parts():
        if folder := folder_of(part.package):
            try:
                if digest_of(part.name, folder) != part.digest:
                    yield part, "its source has changed"
            except LookupError as error:
                yield part, str(error)


def digest_of(name: str, folder: Path) -> str:
    """Return 16 hexadecimal digits of the source of ``name`` in the packages of ``folder``, with
    its decorators; of an attribute, of the lines that name it. Raises LookupError if it does not
    exist."""
    module, _, qualified = name.partition(":")
    text, node = _read(folder / module.replace(".", "/"))
    lines = text.splitlines(keepends=True)
    if node is None:
        raise LookupError(f"there is no module {module}")
    for part in qualified.split("."):
        nodes = [item for item in getattr(node, "body", []) if getattr(item, "name", None) == part]
        if not nodes:
            exprs = (item for item in ast.walk(node) if isinstance(item, ast.expr))
            numbers = {item.lineno for item in exprs if _names(item, part)}
            if not numbers or not qualified.endswith(part):
                raise LookupError(f"there is no {part} in {module}")
            return _digest("".join(lines[number - 1] for number in sorted(numbers)))
        node = nodes[-1]
    # Of a property, its setter too.
    return _digest("".join(_source(item, lines) for item in nodes))


@cache
def _read(path: Path) -> tuple[str, ast.AST | None]:
    """Return the text of a module and its tree; None if there is no such module."""
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return (text := file.read_text()), ast.parse(text)
    return "", None


def _source(node: ast.AST, lines: list[str]) -> str:
    """Return the lines of a function or a class, with its decorators."""
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    first = min(item.lineno for item in (node, *node.decorator_list))
    return "".join(lines[first - 1 : node.end_lineno])


def _names(node: ast.expr, name: str) -> bool:
    """Return True for a variable, an attribute or a text, as in ``hasattr``, that is ``name``."""
    return name in (getattr(node, field, None) for field in ("id", "attr", "value"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def renewed() -> str:
    """Return the table with the digests of the installed packages."""
    lines = [
        f"{digest_of(part.name, folder) if folder else part.digest} {part.name} "
        f"{' '.join(part.files)}\n"
        for part in known_parts()
        for folder in [installed(part.package)]
    ]
    return "".join([_HEAD, *lines])


if __name__ == "__main__":
    _TABLE.write_text(renewed())
