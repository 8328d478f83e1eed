"""Output of a point as text in a bounded size: the end of a log, or the cells of a notebook.

Images and other rich outputs are left out, with a note. The portal's page shows only text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..disk import open_regular
from ..source import text_of
from .plain_text import newest_part, plain_text

LARGEST = 256 * 1024  # bytes of a rendering's JSON, while somebody looks
LARGEST_LAST = 64 * 1024  # the same of one that the portal keeps
_LONGEST_LOG = 64 * 1024  # bytes of a log's end
_LONGEST_SOURCE = 8_000  # characters of a cell
_LONGEST_OUTPUT = 16_000
_LONGEST_HERE = 32_000  # of the cell that runs or failed
_SHORTEST = 200
_CUT = "[The beginning is omitted.]\n"


def log_rendering(path: Path, largest: int) -> dict[str, Any]:
    """Return the end of a log as ``log``, and True as ``cut`` if it has a beginning that is left
    out. A log that is not there is empty. ``largest``: bytes of the JSON."""
    try:
        with open_regular(path, own=True) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LONGEST_LOG))
            content = file.read(_LONGEST_LOG)
    except OSError:
        size, content = 0, b""
    text, longest = content.decode("utf-8", "replace"), _LONGEST_LOG
    log = newest_part(text, len(text) - 1) if size > len(content) else plain_text(text)
    while _size(log) > largest:
        longest //= 2
        log = newest_part(text, longest)
    return {"log": log, "cut": size > len(content) or longest < _LONGEST_LOG}


def notebook_rendering(
    notebook: Mapping[str, Any], at: int, state: str, largest: int
) -> dict[str, Any]:
    """Return the ``cells`` of a notebook around the one that runs or ran last, and the number of
    those ``left_out`` because the JSON would have more than ``largest`` bytes.

    ``at``: number of that cell, counting from 1 the cells with code; ``state``: "running",
    "failed" or "succeeded".
    """
    states = {number: "done" for number in range(1, at + 1)}
    if state in ("running", "failed"):
        states[at] = state
    cells: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
    number = current_index = 0
    for cell in notebook["cells"]:
        source = text_of(cell)
        if not source.strip() or cell.get("cell_type") not in ("code", "markdown"):
            continue
        entry: dict[str, Any] = {"kind": "text", "cell": None, "state": "done"}
        if cell["cell_type"] == "code":
            number += 1
            entry = {"kind": "code", "cell": number, "state": states.get(number, "waiting")}
            current_index = len(cells) if number == max(1, at) else current_index
        cells.append((entry, cell))
    chosen: dict[int, dict[str, Any]] = {}
    left = largest - 100  # for what is around the cells
    for index in sorted(range(len(cells)), key=lambda index: abs(index - current_index)):
        entry, cell = cells[index]
        longest = _LONGEST_HERE if index == current_index else _LONGEST_OUTPUT
        rendered = _rendered(entry, cell, longest)
        while index == current_index and _size(rendered) > left and longest > _SHORTEST:
            longest //= 2
            rendered = _rendered(entry, cell, longest)
        left -= _size(rendered) + 2
        if left < 0:
            break
        chosen[index] = rendered
    return {"cells": [chosen[index] for index in sorted(chosen)],
            "left_out": len(cells) - len(chosen)}  # fmt: skip


def _rendered(entry: Mapping[str, Any], cell: Mapping[str, Any], longest: int) -> dict[str, Any]:
    source, most = text_of(cell), min(longest, _LONGEST_SOURCE)
    text = plain_text(source[:most]) + ("\n[The rest is omitted.]" * (len(source) > most))
    output = ""
    if entry["kind"] == "code":
        parts = [output_text(item, longest) for item in cell.get("outputs") or ()]
        output = "".join(part if part.endswith("\n") else f"{part}\n" for part in parts if part)
        if len(output) > longest:
            output = _CUT + newest_part(output, longest)
    return {**entry, "source": text, "output": output}


def output_text(item: Mapping[str, Any], longest: int) -> str:
    """Return one output of a notebook's cell as text; "" for one without."""
    kind = item.get("output_type")
    if kind == "stream":
        return _text(item.get("text"), longest)
    if kind == "error":
        lines = item.get("traceback") or [f"{item.get('ename')}: {item.get('evalue')}"]
        return _text("\n".join(str(line) for line in lines), longest)
    data = item.get("data")
    if kind not in ("display_data", "execute_result") or not isinstance(data, Mapping):
        return ""
    text = _text(data.get("text/plain"), longest)
    images = sorted(str(name) for name in data if str(name).startswith("image/"))
    others = [] if text else sorted(str(name) for name in data if name != "text/plain")
    notes = [f"[{plain_text(name)[:60]}: see the notebook]" for name in (images or others)[:1]]
    return "\n".join([part for part in (text, *notes) if part])


def _text(value: Any, longest: int) -> str:
    whole = "".join(str(line) for line in value) if isinstance(value, list) else str(value or "")
    cut = len(whole) > 2 * longest
    return _CUT * cut + (newest_part(whole, 2 * longest) if cut else plain_text(whole))


def _size(value: Any) -> int:
    """Return the bytes of a value as JSON, as a request has it."""
    return len(json.dumps(value))
