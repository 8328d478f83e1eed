"""Metrics of a point: the newest values in the file that ``portal_metrics.log`` appends to, and
their histories."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

from ..disk import open_regular
from .histories import Histories

FILE = "metrics.jsonl"  # in the point's folder
MOST = 50  # names; further ones are in the file only
_LONGEST_NAME = 100
_PART = 1024 * 1024  # bytes read at once
_LONGEST_LINE = 64 * 1024


class Metrics:
    """Newest values of a file that grows, and their curves. Methods may be called from any thread.
    ``always``: name of one that is kept although there are many others."""

    def __init__(self, path: Path, always: str = "") -> None:
        self._path, self._always = path, always
        self._at, self._rest = 0, b""
        self._values: dict[str, float] = {}
        self._histories = Histories(always)
        self._lock = threading.Lock()

    def newest(self) -> dict[str, float]:
        """Return the newest finite value by name, MOST names at most."""
        with self._lock:
            try:
                with open_regular(self._path, own=True) as file:
                    file.seek(self._at)
                    while part := file.read(_PART):
                        self._at += len(part)
                        *lines, rest = (self._rest + part).split(b"\n")
                        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
                        for line in lines:
                            self._take(line)
            except OSError:
                pass  # nothing was logged yet
            return dict(self._values)

    def curves(self, *, newest: bool = False) -> dict[str, list[tuple[float, float]]]:
        """Return pairs of a step and a value by name, as `newest` has read them: those of the last
        half minute's beginning, or with ``newest`` all. The pairs must not be changed."""
        with self._lock:
            return self._histories.curves(newest=newest)

    def _take(self, line: bytes) -> None:
        try:
            values = json.loads(line) if len(line) <= _LONGEST_LINE else None
        except (ValueError, RecursionError):
            return  # another program wrote it
        if isinstance(values, dict):
            taken = [name for name, value in values.items() if self._set(name, value)]
            self._histories.add_values({name: self._values[name] for name in taken})

    def _set(self, name: str, value: Any) -> bool:
        """Set a value; return False if it is not a finite number."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and abs(value) <= 1e300 and math.isfinite(value):
            others = MOST - (self._always != "" and self._always not in self._values)
            known = name in (*self._values, self._always) or len(self._values) < others
            if known and 0 < len(name) <= _LONGEST_NAME and name.isprintable():
                self._values[name] = float(value)
                return True
            return False
        self._values.pop(name, None)  # a loss that is NaN by now is not what it was
        return False
