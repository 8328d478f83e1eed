"""Parameters that were chosen for a search's point, by the manifests in the run's folder: for their
reader, and for a run that repeats this one, which uses the same ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..disk import read_regular
from ..execution.task import manifest_of, point_folders
from ..frozen import FILE, LARGEST
from ..parameters import Scalar

_MOST = 1_000  # attempts of a point


def parameters_before(
    folder: Path, number: int, search: Mapping[str, Any]
) -> dict[str, Scalar] | None:
    """Return the searched parameters of the point ``number`` of the run in ``folder``, by its
    newest attempt; None if it never had any, or if that cannot be read or is another user's: of
    those, the portal knows the parameters."""
    names = [str(each["name"]) for each in search["parameters"]]
    for attempt in point_folders(folder, number)[:_MOST]:
        values = manifest_of(attempt, own=True).get("parameters")
        if isinstance(values, dict) and all(_is_scalar(values.get(name, ())) for name in names):
            return {name: values[name] for name in names}
    return None


def frozen_search(folder: Path) -> dict[str, Any] | None:
    """Return the search of the run in ``folder``; None without one, or if run.json is damaged."""
    try:
        search = json.loads(read_regular(folder / FILE, LARGEST))["search"]
        names = [each["name"] for each in search["parameters"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return search if all(isinstance(name, str) for name in names) else None


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))
