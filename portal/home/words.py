"""Words of Home."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from portal.models.cluster.gpu_share import title_of
from portal.models.session.resources import time_seconds
from portal.models.words import count, duration


def resources_words(options: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return the resources in ``user_options`` as "2 x V100, 8 CPUs, 32G, 2 h". ``titles``: of
    types of GPUs."""
    gpus, cpus, memory, time = (options.get(name) for name in ("gpus", "cpus", "memory", "time"))
    parts = []
    if gpus:
        name = str(options.get("gpu_type") or "GPU")
        parts.append(f"{gpus} \N{MULTIPLICATION SIGN} {title_of(name, titles)}")
    if isinstance(cpus, int):
        parts.append(count(cpus, "CPU"))
    if memory:
        parts.append(str(memory))
    if time:
        with contextlib.suppress(ValueError):  # of an old session
            parts.append(duration(time_seconds(str(time))))
    return ", ".join(parts)
