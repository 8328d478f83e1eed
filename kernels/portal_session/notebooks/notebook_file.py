"""Notebook on disk, into which outputs are written when no browser does it.

Edits are not overwritten: a file saved after an execution began is newer than the execution, and
only outputs are added to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple


class CellResult(NamedTuple):
    """Result of an execution of a cell. ``started``: Unix seconds."""

    cell: str
    code: str
    started: float
    execution_count: int | None
    outputs: list[dict[str, Any]]


class NotebookFile:
    """A single notebook, through the server's own contents manager (atomic, signed, with its
    hooks)."""

    def __init__(self, contents: Any, path: str) -> None:
        self.path = path
        self._contents = contents
        self._own: float | None = None  # mtime of the last write from here
        self._saved = 0.0  # mtime of the last known save by anybody else

    async def saved_at(self) -> float:
        """Return the time, in Unix seconds, of the last save by a browser or any other program."""
        self._look(await self._get(content=False))
        return self._saved

    async def put(self, results: Iterable[CellResult]) -> None:
        """Write the results into their cells. Raises what the contents manager raises, and
        FileChanged if somebody else saved the file at this moment."""
        model = await self._get(content=True)
        self._look(model)
        before = model["last_modified"]
        for result in results:
            _fill(model["content"], result, edited=self._saved >= result.started)
        if (await self._get(content=False))["last_modified"] != before:
            raise FileChanged(self.path)
        wanted = {"type": "notebook", "format": "json", "content": model["content"]}
        saved = await _waited(self._contents.save(wanted, self.path))
        self._own = _seconds(saved["last_modified"])

    async def _get(self, *, content: bool) -> dict[str, Any]:
        return dict(await _waited(self._contents.get(self.path, content=content, type="notebook")))

    def _look(self, model: dict[str, Any]) -> None:
        at = _seconds(model["last_modified"])
        if at != self._own:
            self._saved = at


class FileChanged(Exception):
    """Concurrent save of the notebook by somebody else; retry."""


def _fill(notebook: Any, result: CellResult, *, edited: bool) -> None:
    """Write ``result`` into its cell. ``edited``: the file was saved after the execution began, so
    its cells are newer."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    matches = [cell for cell in cells if cell.get("id") == result.cell]
    if not matches and not any("id" in cell for cell in cells):
        # A notebook from before nbformat 4.5: its cells have ids in the browser only.
        same = [cell for cell in cells if cell["source"] == result.code]
        matches = same if len(same) == 1 else []
    if not matches:
        if edited:
            return  # the cell was deleted on purpose
        from nbformat.v4 import new_code_cell

        # It was run before it was ever saved.
        matches = [new_code_cell(source=result.code, id=result.cell)]
        if (notebook["nbformat"], notebook["nbformat_minor"]) < (4, 5):
            del matches[0]["id"]
        notebook["cells"].extend(matches)
    cell = matches[0]
    if not edited:
        cell["source"] = result.code
    cell["outputs"] = result.outputs
    cell["execution_count"] = result.execution_count


def _seconds(time: datetime) -> float:
    return time.timestamp()


async def _waited(result: Any) -> Any:
    """Await the result of a contents manager, which may be asynchronous or not."""
    return await result if inspect.isawaitable(result) else result
