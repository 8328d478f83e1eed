"""Parameters that were chosen for a search's point, by the manifests in the run's folder: for who
looks at them, and for a run that repeats this one, where the same ones count."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..execution.manifest import FILE as MANIFEST
from ..parameters import Scalar
from ..plan import FILE

_LARGEST = 64 * 1024 * 1024  # bytes of a manifest
_MOST = 1_000  # attempts of a point


def parameters_before(
    folder: Path, number: int, search: Mapping[str, Any]
) -> dict[str, Scalar] | None:
    """Return the searched parameters of the point ``number`` of the run in ``folder``, by its
    newest attempt; None if it never had any, or if that cannot be read."""
    names = [str(each["name"]) for each in search["parameters"]]
    pattern = re.compile(rf"{number:04d}(?:-([0-9]{{1,4}}))?")
    try:
        matches = [match for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    except OSError:
        return None
    matches.sort(key=lambda match: int(match[1] or 1), reverse=True)
    for match in matches[:_MOST]:
        try:
            with (folder / match[0] / MANIFEST).open("rb") as file:
                values = json.loads(file.read(_LARGEST))["parameters"]
            if all(_is_scalar(values[name]) for name in names):
                return {name: values[name] for name in names}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # it failed before it had them
    return None


def frozen_search(folder: Path) -> dict[str, Any] | None:
    """Return the search of the run in ``folder``; None without one, or if run.json is damaged."""
    try:
        search = json.loads((folder / FILE).read_bytes())["search"]
        names = [each["name"] for each in search["parameters"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return search if all(isinstance(name, str) for name in names) else None


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))
