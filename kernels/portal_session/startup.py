"""How long the steps of this session's start took; told to the portal once.

Imported first of all, so that what comes after counts. In the process nothing but a clock that
never jumps is read; only the job script's beginning, which another process noted, is by the
system's clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

# EPOCHREALTIME of deploy/session.sh; its decimal sign is the locale's.
VARIABLE = "PORTAL_SCRIPT_AT"
_LONGEST = 86400.0  # seconds; a longer step is a clock that was set meanwhile
_TRIES = 20

_BEGAN_AT = time.time()
_marks: dict[str, float] = {"": time.monotonic()}


def mark(step: str) -> None:
    """``step`` is over now, and began when the one that was marked before it was. The first word
    stays."""
    _marks.setdefault(step, time.monotonic())


def steps(environ: Mapping[str, str]) -> dict[str, float]:
    """Seconds by step, as far as they are marked; what cannot be is left out."""
    found: dict[str, float] = {}
    try:
        script_at = float(environ.get(VARIABLE, "").replace(",", "."))
    except ValueError:
        pass
    else:
        found["container"] = _BEGAN_AT - script_at
    moments = list(_marks.items())
    for (_, before), (name, at) in zip(moments, moments[1:]):
        found[name] = at - before
    return {name: round(value, 3) for name, value in found.items() if 0 <= value <= _LONGEST}


class Telling:
    """Tells the portal, through ``service``, once the server is up."""

    def __init__(self, service: Any, environ: Mapping[str, str], log: Any) -> None:
        self._service = service
        self._environ = environ
        self._log = log
        self._left = _TRIES

    def tell(self) -> None:
        """One try, where it is time and it was not told yet. Blocks as Service.ask does; raises
        nothing."""
        if not self._left or "listening" not in _marks:
            return
        try:
            self._service.ask("POST", "session/startup", {"steps": steps(self._environ)})
        except Exception as error:  # whatever it is, the session goes on
            self._left -= 1
            if not self._left:
                self._log.info("How this session's start went is not recorded: %s", error)
        else:
            self._left = 0
