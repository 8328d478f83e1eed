"""Program of an image job: ``python -I -m portal.images.job`` on a node.

Builds, tests or unpacks, as its environment says (`portal.launch.image_job`), reports through its
log (`log_protocol`), and leaves nothing half-made when it is ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from pydantic import ValidationError

from ..errors import PortalError
from ..launch.image_job import VARIABLE
from ..models.catalog.image_job import Event, ImageJob, Work
from . import log_protocol
from .outcome import CouldNotRun, WorkFailed
from .processes import end_descendants, take_orphans

Report = Callable[[Event], None]
_PR_SET_DUMPABLE = 4  # prctl(2)


class Stopped(BaseException):
    """Stop of the job by somebody (scancel, its time limit). No work catches this."""


def main() -> int:
    """Run the job; return the exit status: 0 if the work came to its end and passed."""
    text = os.environ.pop(VARIABLE, "")
    _keep_to_oneself()
    take_orphans()
    try:
        job = ImageJob.model_validate_json(text)
    except ValidationError:
        log_protocol.say(f"{VARIABLE} is missing or invalid. Only the portal starts this program.")
        return 2

    def report(event: Event) -> None:
        log_protocol.emit(job.nonce, event)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        result = _work(job, report)
    except Stopped:
        _say(report, error="The job was cancelled or reached its time limit.")
        return 1
    except WorkFailed as error:
        _say(report, error=error.message, result=error.result)
        return 1
    except CouldNotRun as error:
        _say(report, error=error.message, could_not_run=True)
        return 1
    except PortalError as error:
        _say(report, error=error.message)
        return 1
    except Exception as error:
        log_protocol.say(f"{type(error).__name__}: {error}")
        _say(report, error="The job failed for an unknown reason.")
        raise
    finally:
        end_descendants(but=())
    report(Event(at=time.time(), step="done", result=result, share=1.0))
    return 0


def _work(job: ImageJob, report: Report) -> dict[str, Any]:
    # What a job does not need is not loaded: a broken part stops its own kind of work only.
    if job.work is Work.BUILD:
        from .jobs.building import build

        return build(job, report).model_dump(mode="json")
    if job.work is Work.TEST:
        from .jobs import smoke

        return smoke.test(job, report).model_dump(mode="json")
    from .jobs import node_cache

    return {"directory": node_cache.unpack(job, report)}


def _say(report: Report, **more: Any) -> None:
    report(Event(at=time.time(), step="done", **more))


def _stop(number: int, frame: FrameType | None) -> None:
    for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(caught, signal.SIG_IGN)  # the job is ending already
    raise Stopped


def _keep_to_oneself() -> None:
    """Close the job's own memory and environment to other processes of its account: what an image
    runs must not read the nonce out of /proc."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
