"""Outputs of one execution of a cell, as a notebook stores them.

Takes the kernel's messages, and gives nbformat's outputs. A terminal's control characters are
applied as JupyterLab does it, so that a progress bar is one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

LARGEST = 16 * 1024 * 1024  # characters kept of one cell; a larger notebook does not open any more
TOO_MUCH = f"\nThe rest of this output was dropped: it is larger than {LARGEST >> 20} MB.\n"
_LEAST = 4096  # characters that are taken at once: what they overwrite is not known before

_CONTROL = re.compile("([\n\r\b])")


class CellOutputs:
    """Outputs of one execution. ``changes`` grows with each change; ``size`` is in characters.

    ``largest``: characters that are kept; ``note``: what stands in place of the rest.
    """

    def __init__(self, largest: int = LARGEST, note: str = TOO_MUCH) -> None:
        self._largest, self._note = largest, note
        self.execution_count: int | None = None
        self.changes = 0
        self.size = 0
        self._items: list[dict[str, Any] | StreamText] = []
        self._display_ids: dict[int, str] = {}  # by the id() of an item
        self._clear_first = False
        self._full = False

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Take one message of the kernel; messages without output are ignored."""
        if kind == "execute_input":
            self.execution_count = content.get("execution_count")
            self.changes += 1
        elif kind == "clear_output":
            self._clear_first = bool(content.get("wait"))
            if not self._clear_first:
                self._clear()
        elif kind == "stream":
            self._print(content.get("name", "stdout"), content.get("text", ""))
        elif kind in ("display_data", "execute_result"):
            item = {
                "output_type": kind,
                "data": content.get("data", {}),
                "metadata": content.get("metadata", {}),
            }
            if kind == "execute_result":
                item["execution_count"] = content.get("execution_count")
            self._show(item, (content.get("transient") or {}).get("display_id"))
        elif kind == "error":
            item = {"output_type": "error"}
            item |= {name: content.get(name, "") for name in ("ename", "evalue")}
            self._show({**item, "traceback": content.get("traceback", [])}, always=True)

    def update(self, content: dict[str, Any]) -> None:
        """Apply an ``update_display_data``, which may come from another cell, to its display."""
        wanted = (content.get("transient") or {}).get("display_id")
        for item in self._items:
            if wanted and isinstance(item, dict) and self._display_ids.get(id(item)) == wanted:
                item["data"] = content.get("data", {})
                item["metadata"] = content.get("metadata", {})
                self.changes += 1

    def as_json(self) -> list[dict[str, Any]]:
        """Return the cell's ``outputs``."""
        return [
            item.as_json() if isinstance(item, StreamText) else dict(item) for item in self._items
        ]

    def state(self) -> dict[str, Any]:
        """Return, for JSON, what `restored` needs."""
        last = self._items[-1] if self._items else None
        return {
            "execution_count": self.execution_count,
            "outputs": self.as_json(),
            "display_ids": [
                self._display_ids.get(id(item)) if isinstance(item, dict) else None
                for item in self._items
            ],
            "column": last.column if isinstance(last, StreamText) else 0,
            "clear_first": self._clear_first,
            "full": self._full,
            "size": self.size,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> CellOutputs:
        """Return the outputs of a ``state``, all of them as a change. Raises ValueError for an
        invalid one."""
        outputs = cls()
        try:
            for item, display_id in zip(state["outputs"], state["display_ids"]):
                if item["output_type"] == "stream":
                    text = StreamText(item["name"])
                    text.write(item["text"])
                    outputs._items.append(text)
                    text.column = state["column"]  # only the last one is written to
                    continue
                outputs._items.append(item)
                if display_id:
                    outputs._display_ids[id(item)] = display_id
            outputs.execution_count = state["execution_count"]
            outputs._clear_first, outputs._full = state["clear_first"], state["full"]
            outputs.size, outputs.changes = state["size"], 1
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("This is not the state of outputs.") from error
        return outputs

    def _clear(self) -> None:
        self._items, self._display_ids = [], {}
        self._clear_first, self._full, self.size = False, False, 0
        self.changes += 1

    def _room(self, size: int) -> bool:
        if self._clear_first:
            self._clear()
        if self._full:
            return False
        self.changes += 1
        if self.size + size <= self._largest:
            self.size += size
            return True
        self._full = True
        note = StreamText("stderr")
        note.write(self._note)
        self._items.append(note)
        return False

    def _print(self, name: str, text: str) -> None:
        if not self._room(0):
            return
        last = self._items[-1] if self._items else None
        if not (isinstance(last, StreamText) and last.name == name):
            last = StreamText(name)
            self._items.append(last)
        while text and not self._full:
            part = text[: max(_LEAST, self._largest - self.size + 1)]
            text = text[len(part) :]
            self.size += last.write(part)
            if self.size > self._largest:
                self._room(1)

    def _show(
        self, item: dict[str, Any], display_id: str | None = None, *, always: bool = False
    ) -> None:
        if not self._room(len(json.dumps(item))) and not always:
            return
        self._items.append(item)
        if display_id:
            self._display_ids[id(item)] = display_id


class StreamText:
    """Text of one stream: complete lines, and the line that is still written to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: list[str] = []
        self._line = ""
        self.column = 0  # of the next character

    def write(self, text: str) -> int:
        """Add ``text``; return by how many characters the shown text grew."""
        grown = 0
        for part in _CONTROL.split(text):
            before = len(self._line)
            if part == "\n":
                self._lines.append(self._line + "\n")
                self._line, self.column = "", 0
                grown += 1
                continue
            if part == "\r":
                self.column = 0
            elif part == "\b":
                if self.column:
                    self._line = self._line[: self.column - 1] + self._line[self.column :]
                    self.column -= 1
            else:
                end = self.column + len(part)
                self._line = self._line[: self.column] + part + self._line[end:]
                self.column = end
            grown += len(self._line) - before
        return grown

    def as_json(self) -> dict[str, Any]:
        text = "".join(self._lines) + self._line
        return {"output_type": "stream", "name": self.name, "text": text}
