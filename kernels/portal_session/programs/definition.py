"""Definitions of programs, as the portal passes them to a session.

PORTAL_PROGRAM has the one that is opened instead of JupyterLab, PORTAL_OPENS those that can be
opened beside it, by name. Each has its ``title`` and ``argv`` (`program`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

NAME = r"[a-z0-9-]{1,40}"


def instead(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the program that the session opens; None for JupyterLab."""
    definition = _read(environ.get("PORTAL_PROGRAM"))
    return definition if _is_good(definition) else None


def beside(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the programs that can be opened beside JupyterLab, by name."""
    definitions = _read(environ.get("PORTAL_OPENS"))
    return {
        name: definition
        for name, definition in (definitions.items() if isinstance(definitions, dict) else ())
        if re.fullmatch(NAME, name) and _is_good(definition)
    }


def _read(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except ValueError:
        return None


def _is_good(definition: Any) -> bool:
    argv = definition.get("argv") if isinstance(definition, dict) else None
    return bool(isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv))
