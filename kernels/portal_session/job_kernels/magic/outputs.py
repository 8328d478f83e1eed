"""Outputs of a ``%%gpu`` cell, shown in the notebook's cell as its own."""

from __future__ import annotations

import sys
import uuid
from typing import Any

# A widget's model is in the other kernel, where no page reaches it: the text beside it is shown.
_WIDGET = "application/vnd.jupyter.widget-view+json"


class Result:
    """Value of the cell's last expression, in the other kernel: its representations."""

    def __init__(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        self._data, self._metadata = data, metadata

    def __repr__(self) -> str:
        return str(self._data.get("text/plain", "<result on the GPU>"))

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._data, self._metadata


class RemoteError(Exception):
    """Error of the cell in the other kernel, with its traceback."""

    def __init__(self, content: dict[str, Any]) -> None:
        super().__init__(str(content.get("evalue", "")))
        self._traceback = [str(line) for line in content.get("traceback") or ()]

    def _render_traceback_(self) -> list[str]:  # called by IPython
        return self._traceback or [f"\x1b[0;31m{type(self).__name__}\x1b[0m: {self}"]


def error_of(content: dict[str, Any]) -> RemoteError:
    """Return the error of a message or reply, as a class of the error's own name."""
    kind = type(str(content.get("ename") or "Error"), (RemoteError,), {})
    error: RemoteError = kind(content)
    return error


class CellOutputs:
    """Outputs of one cell. ``result`` is its last result, once it has ended."""

    def __init__(self, shell: Any) -> None:
        self._publisher = shell.display_pub
        self.result: Result | None = None

    def hear(self, message: dict[str, Any]) -> None:
        """Show what a broadcast message of the other kernel brings."""
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            (sys.stderr if content["name"] == "stderr" else sys.stdout).write(content["text"])
        elif kind in ("display_data", "update_display_data"):
            self._publisher.publish(
                data=_shown(content["data"]),
                metadata=content.get("metadata") or {},
                transient=content.get("transient") or {},
                update=kind == "update_display_data",
            )
        elif kind == "execute_result":
            if self.result is not None:  # IPython's ast_node_interactivity can give several
                self._publisher.publish(*self.result._repr_mimebundle_())
            self.result = Result(_shown(content["data"]), content.get("metadata") or {})
        elif kind == "clear_output":
            self._publisher.clear_output(wait=bool(content.get("wait")))


def _shown(data: dict[str, Any]) -> dict[str, Any]:
    return {kind: value for kind, value in data.items() if kind != _WIDGET}


class StatusLine:
    """Line of the cell that is replaced by each new one."""

    def __init__(self, shell: Any) -> None:
        self._publisher = shell.display_pub
        self._id, self._text = uuid.uuid4().hex, ""

    def show(self, text: str) -> None:
        """Show ``text`` in place of what the line was."""
        if text == self._text:
            return
        self._publisher.publish(
            data={"text/plain": text},
            metadata={},
            transient={"display_id": self._id},
            update=bool(self._text),
        )
        self._text = text
