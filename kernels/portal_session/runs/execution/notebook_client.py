"""Client of a point's kernel: nbclient's, whose outputs are bounded and known while a cell runs."""

from __future__ import annotations

import copy
from typing import Any, Callable

from nbclient import NotebookClient

from ...notebooks.cell_outputs import CellOutputs

LARGEST = 50 * 1024 * 1024  # characters of all outputs
_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})
_LONGEST_ERROR = 100_000  # characters of a traceback's line, which is kept in any case


class PointClient(NotebookClient):  # type: ignore[misc]
    """Client that executes the cells of ``nb``. ``changed`` is called when a cell prints; all
    outputs together have at most ``largest`` characters."""

    def __init__(
        self, nb: Any, manager: Any, largest: int, changed: Callable[[], None], **more: Any
    ) -> None:
        super().__init__(nb, km=manager, **more)
        self._largest, self._output_changed = largest, changed
        self._of_cells: dict[int, CellOutputs] = {}

    def begin_cell(self, index: int) -> CellOutputs:
        """Return the empty outputs of the next cell, which may use the space that the others
        left."""
        used = sum(outputs.size for outputs in self._of_cells.values())
        note = (
            f"\nThe rest of this output was dropped: the notebook has more than "
            f"{self._largest / 1024**2:.3g} MB.\n"
        )
        outputs = self._of_cells[index] = CellOutputs(max(0, self._largest - used), note)
        return outputs

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Take the message of a running cell. Raises CellExecutionComplete after the last."""
        kind, content = msg["msg_type"], msg["content"]
        widget = self.output_hook_stack.get(msg["parent_header"].get("msg_id"))
        outputs = self._of_cells.get(cell_index)
        if outputs is None or widget or kind not in (*_OUTPUTS, "clear_output"):
            if kind == "update_display_data":
                self._update(content)
                return None
            return super().process_message(msg, cell, cell_index)
        if kind in ("display_data", "execute_result"):
            self._update(content)  # as in JupyterLab, all displays of this id show the newest
        if kind == "error":
            content = shortened(content)
        outputs.take(kind, content)
        if content.get("execution_count"):
            cell["execution_count"] = content["execution_count"]
        self._output_changed()
        return None

    def _update(self, content: Any) -> None:
        for outputs in self._of_cells.values():
            outputs.update(content)
        self._output_changed()

    def snapshot(self) -> dict[str, Any]:
        """Return the notebook as it is now, which does not change afterwards."""
        cells = []
        for index, cell in enumerate(self.nb["cells"]):
            cell_copy = dict(cell)
            cell_copy["metadata"] = copy.deepcopy(dict(cell.get("metadata", {})))
            if index in self._of_cells:
                # Those of widgets are nbclient's.
                cell_copy["outputs"] = [*self._of_cells[index].as_json(), *cell.get("outputs", ())]
            cells.append(cell_copy)
        metadata = copy.deepcopy(dict(self.nb["metadata"]))
        return {**self.nb, "metadata": metadata, "cells": cells}


def shortened(content: dict[str, Any]) -> dict[str, Any]:
    """Return an error whose texts have a bounded length: it is kept after all other outputs."""
    lines = [str(line)[:_LONGEST_ERROR] for line in content.get("traceback", ())[-200:]]
    texts = {name: str(content.get(name, ""))[:_LONGEST_ERROR] for name in ("ename", "evalue")}
    return {**content, **texts, "traceback": lines}
