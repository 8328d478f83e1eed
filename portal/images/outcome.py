"""Failures of a job's work: the image is broken, or it could not be examined."""

from __future__ import annotations

from typing import Any

from ..errors import PortalError


class WorkFailed(PortalError):
    """Fault of the image or environment, as the message says. ``result``: what is known of it all
    the same (BuildResult or TestResult as JSON values); None: nothing."""

    code = "work_failed"
    status = 422

    def __init__(self, message: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = result


class CouldNotRun(PortalError):
    """Failure to do the work here: a node without Apptainer, a full disk. No verdict on the image
    (WorkState.UNKNOWN)."""

    code = "could_not_run"
    status = 503
