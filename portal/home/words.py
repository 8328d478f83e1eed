"""Words of Home. Times are written as on the pages that scripts draw (static/js/words.js)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from portal.models.session.resources import time_seconds
from portal.models.words import count


def brief(seconds: float) -> str:
    """Return a duration as "45 s", "12 min", "1 h 5 min" or "3 d 4 h"."""
    whole = max(0, int(seconds))
    for size, unit, small, small_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole // 60} min" if whole >= 60 else f"{whole} s"


def resources_words(options: Mapping[str, Any]) -> str:
    """Return the resources in ``user_options`` as "2 x v100, 8 CPUs, 32G, 2 h"."""
    gpus, cpus, memory, time = (options.get(name) for name in ("gpus", "cpus", "memory", "time"))
    parts = []
    if gpus:
        parts.append(f"{gpus} \N{MULTIPLICATION SIGN} {options.get('gpu_type') or 'GPU'}")
    if isinstance(cpus, int):
        parts.append(count(cpus, "CPU"))
    if memory:
        parts.append(str(memory))
    if time:
        with contextlib.suppress(ValueError):  # of an old session
            parts.append(brief(time_seconds(str(time))))
    return ", ".join(parts)
