"""Script made of a notebook's cell: its code, with a point's parameters as variables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import RunError

LARGEST = 200_000  # characters
_TRIES = 1000  # names that are taken
_HEAD = """\
# A cell of {notebook}. The parameters of a point are variables of the same names.
import json as _json, os as _os
globals().update(_json.loads(_os.environ.get("PORTAL_PARAMETERS", "{{}}")))

"""


def check_code(code: Any) -> str:
    """Return the code of a cell if it can be a script. Raises RunError."""
    if not isinstance(code, str) or not code.strip():
        raise RunError("The cell is empty. Choose one with code.")
    if len(code) > LARGEST:
        raise RunError(f"The cell has more than {LARGEST:,} characters. Run the notebook instead.")
    try:
        code.encode()
        compile(code, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        raise RunError(
            f"The cell cannot be a Python script: it is not plain Python{where}. Commands of "
            "IPython (% and !) and 'await' work in notebooks only. Run the notebook instead."
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise RunError("The cell cannot be a Python script. Run the notebook instead.") from None
    return code


def script_path(notebook: Path, number: int = 1) -> Path:
    """Return the path of a script for a cell of this notebook; ``number``: from 1."""
    ending = f"-{number}" if number > 1 else ""
    return notebook.with_name(f"{notebook.stem}-cell{ending}.py")


@contextmanager
def cell_script(code: str, notebook: Path) -> Iterator[Path]:
    """Write the code of a cell to a new script beside its notebook, ``NAME-cell.py`` or with a
    number that is free, and yield its path. It is removed if the block fails: the run was refused.
    Raises RunError."""
    text = _with_head(code, _HEAD.format(notebook=ascii(notebook.name)[1:-1]))
    path = _written(text.encode(), notebook)
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _with_head(code: str, head: str) -> str:
    """Return the code after the head, which is after its imports of ``__future__``: nothing but a
    docstring may be before them."""
    lines = code.rstrip().split("\n")
    futures = [
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    if not futures:
        return head + "\n".join(lines) + "\n"
    row, column = futures[-1].end_lineno or 1, futures[-1].end_col_offset or 0
    line = lines[row - 1].encode()  # columns count its bytes
    before = [*lines[: row - 1], line[:column].decode()]
    after = [line[column:].decode().lstrip(" ;"), *lines[row:]]
    return "\n".join([*before, head, *after]) + "\n"


def _written(content: bytes, notebook: Path) -> Path:
    """Write a new file. Raises RunError."""
    for number in range(1, _TRIES + 1):
        path = script_path(notebook, number)
        try:
            with path.open("xb") as file:
                file.write(content)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(
                f"The cell cannot be written to {path}: {error.strerror}. Copy the notebook to "
                "one of your folders."
            ) from None
    raise RunError(f"There are {_TRIES:,} scripts of cells next to the notebook. Delete some.")
