"""Durations of the steps of this session's start, reported to the portal once.

Imported first of all, so that what comes after counts. Within the process only a monotonic clock
is read; the start of the job script, recorded by another process, is by the system's clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

# EPOCHREALTIME of deploy/session.sh; its decimal separator is the locale's.
VARIABLE = "PORTAL_SCRIPT_AT"
_LONGEST = 86400.0  # seconds; a longer step means that a clock was set meanwhile
_TRIES = 20

_BEGAN_AT = time.time()
_marks: dict[str, float] = {"": time.monotonic()}


def mark(step: str) -> None:
    """Record the end of ``step``, which began at the end of the step marked before. The first call
    for a step counts."""
    _marks.setdefault(step, time.monotonic())


def steps(environ: Mapping[str, str]) -> dict[str, float]:
    """Return the seconds of each step that is marked; unknown ones are left out."""
    durations: dict[str, float] = {}
    try:
        script_at = float(environ.get(VARIABLE, "").replace(",", "."))
    except ValueError:
        pass
    else:
        durations["container"] = _BEGAN_AT - script_at
    moments = list(_marks.items())
    for (_, before), (name, at) in zip(moments, moments[1:]):
        durations[name] = at - before
    return {name: round(value, 3) for name, value in durations.items() if 0 <= value <= _LONGEST}


class StartupReporter:
    """Single report to the portal, through ``service``, once the server is up."""

    def __init__(self, service: Any, environ: Mapping[str, str], log: Any) -> None:
        self._service = service
        self._environ = environ
        self._log = log
        self._left = _TRIES

    def report_startup(self) -> None:
        """Try once to report, if it is time and not done yet. Blocks as Service.ask does; raises
        nothing."""
        if not self._left or "listening" not in _marks:
            return
        try:
            self._service.ask("POST", "session/startup", {"steps": steps(self._environ)})
        except Exception as error:  # any error: the session goes on
            self._left -= 1
            if not self._left:
                self._log.info("The startup times of this session are not recorded: %s", error)
        else:
            self._left = 0
