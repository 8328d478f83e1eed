"""Names of GPU types for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traitlets.config import LazyConfigValue


def gpu_titles(described: Any) -> dict[str, str]:
    """Return the site's titles of GPU types by Slurm's name. ``described``:
    c.LaunchForm.gpu_types, also as a part of the configuration."""
    if isinstance(described, LazyConfigValue):
        described = described.get_value({})
    types = described.items() if isinstance(described, Mapping) else ()
    return {
        name: str(about["title"])
        for name, about in types
        if isinstance(about, Mapping) and about.get("title")
    }
