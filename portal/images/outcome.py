"""How the work of a job can end badly: what was looked at is broken, or nobody could look."""

from __future__ import annotations

from typing import Any

from ..errors import PortalError


class WorkFailed(PortalError):
    """The image or environment is wrong, as the sentence says. ``result``: what is known of it all
    the same (BuildResult or TestResult as JSON's values), None where nothing is."""

    code = "work_failed"
    status = 422

    def __init__(self, message: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = result


class CouldNotRun(PortalError):
    """The work could not be done here: a node without Apptainer, a full disk. It says nothing of
    the image (WorkState.UNKNOWN)."""

    code = "could_not_run"
    status = 503
