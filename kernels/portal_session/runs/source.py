"""Source of a run: a notebook or a Python script, and what its cells say."""

from __future__ import annotations

import copy
import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import RunError
from .disk import read_regular

LARGEST = 100 * 1024 * 1024  # bytes
PARAMETERS = "parameters"  # tag of the cell with the parameters, as papermill has it
INJECTED = "injected-parameters"  # tag of the cell that sets them
_ENDINGS = (".ipynb", ".py")


class Source(NamedTuple):
    """Source as it was read: ``path`` is absolute, ``notebook`` the JSON of a notebook, None of a
    script."""

    path: Path
    content: bytes
    notebook: dict[str, Any] | None

    @property
    def file_name(self) -> str:
        """Name of the frozen copy."""
        return f"source{self.path.suffix}"

    @property
    def sha256(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


def read_source(path: Path) -> Source:
    """Read a notebook (``.ipynb``) or a script (``.py``). Raises RunError."""
    if path.suffix not in _ENDINGS:
        raise RunError(
            f"'{path.name}' is neither a notebook (.ipynb) nor a Python script (.py). A run "
            "needs one of them."
        )
    try:
        content = read_regular(path, LARGEST)
    except FileNotFoundError:
        raise RunError(f"There is no file '{path}'. Check the path.") from None
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST:
        raise RunError(
            f"'{path.name}' is larger than {LARGEST >> 20} MB. Clear its outputs and save it."
        )
    notebook = parsed(content, path.name) if path.suffix == ".ipynb" else None
    return Source(path.absolute(), content, notebook)


def with_first_cell(source: Source) -> Source:
    """Return the source with its first code cell as the one with the parameters, unless one has the
    tag; a script as it is. Raises RunError if a notebook has no code."""
    if source.notebook is None:
        return source
    notebook = copy.deepcopy(source.notebook)
    if any(is_tagged(cell, PARAMETERS) for cell in notebook["cells"]):
        return source
    codes = (cell for cell in notebook["cells"] if cell.get("cell_type") == "code")
    first = next((cell for cell in codes if text_of(cell).strip()), None)
    if first is None:
        raise RunError(f"'{source.path.name}' has no code cell that could have the parameters.")
    metadata = first.get("metadata") if isinstance(first.get("metadata"), dict) else {}
    tags = metadata.get("tags") if isinstance(metadata.get("tags"), list) else []
    first["metadata"] = {**metadata, "tags": [*tags, PARAMETERS]}
    content = json.dumps(notebook, ensure_ascii=False, indent=1).encode()
    return Source(source.path, content, notebook)


def parsed(content: bytes, name: str) -> dict[str, Any]:
    """Return the JSON of a notebook, of an older format as nbformat 4. Raises RunError."""
    try:
        notebook = json.loads(content)
    except (ValueError, RecursionError):
        raise RunError(f"'{name}' is not a notebook: its content is not JSON.") from None
    if isinstance(notebook, dict) and notebook.get("nbformat") in (1, 2, 3):
        notebook = _converted(notebook, name)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise RunError(
            f"'{name}' is not a notebook of format 4. Open it in JupyterLab and save it again."
        )
    return dict(notebook)


def _converted(notebook: dict[str, Any], name: str) -> Any:
    """Return a notebook of an older format as nbformat 4. Raises RunError."""
    try:
        import nbformat  # half a second that few notebooks need

        # Read as a file: texts are lists of lines there, which `convert` does not take.
        return json.loads(nbformat.writes(nbformat.reads(json.dumps(notebook), 4)))
    except Exception:  # whatever a damaged notebook makes of nbformat
        raise RunError(
            f"'{name}' is a notebook of the old format {notebook['nbformat']} that cannot be "
            "converted. Open it in JupyterLab and save it again."
        ) from None


def text_of(cell: Mapping[str, Any]) -> str:
    """Return the text of a cell, which a file has as text or as a list of lines."""
    text = cell.get("source") or ""
    return "".join(str(line) for line in text) if isinstance(text, list) else str(text)


def is_tagged(cell: Mapping[str, Any], tag: str) -> bool:
    """Return True for a code cell with this tag."""
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return cell.get("cell_type") == "code" and isinstance(tags, list) and tag in tags


def kernel_of(notebook: Mapping[str, Any]) -> str:
    """Return the name of the notebook's kernelspec; "" if it names none."""
    return str(_of_metadata(notebook, "kernelspec").get("name") or "")


def language_of(notebook: Mapping[str, Any]) -> str:
    """Return the notebook's language in lower case; "python" if it names none."""
    named = _of_metadata(notebook, "kernelspec").get("language")
    named = named or _of_metadata(notebook, "language_info").get("name")
    return str(named or "python").lower()


def _of_metadata(notebook: Mapping[str, Any], key: str) -> dict[str, Any]:
    metadata = notebook.get("metadata")
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else {}


def injected(notebook: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the notebook that sets ``values``: a cell after the one with the
    parameters. It replaces the cell of an earlier injection, which stays if nothing is set, as
    papermill has it.

    The values are written as Python literals, so that nothing in a text is code.
    """
    changed = copy.deepcopy(dict(notebook))
    cells = changed["cells"]
    if values:
        cells = [cell for cell in cells if not is_tagged(cell, INJECTED)]
        lines = ["# Parameters of this point", *(f"{name} = {values[name]!r}" for name in values)]
        cell: dict[str, Any] = {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {"tags": [INJECTED]},
            "outputs": [],
            "source": "\n".join(lines),
        }
        if (changed.get("nbformat"), changed.get("nbformat_minor", 0)) >= (4, 5):
            cell["id"] = secrets.token_hex(4)
        declared = (at for at, cell in enumerate(cells) if is_tagged(cell, PARAMETERS))
        cells.insert(next(declared, -1) + 1, cell)
    changed["cells"] = cells
    return changed
