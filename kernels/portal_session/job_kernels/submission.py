"""Submission of a new kernel's job, before the relay's process loads what else it needs.

That takes a quarter of a second, in which the job is on its way; its starter waits for the address
in the record. So nothing heavy is imported here.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from . import record as records
from .broker_client import Broker, BrokerError
from .record import BadRecord, Record

HELD = (signal.SIGINT, signal.SIGTERM)  # signals that wait until the relay can end the job


class Submission:
    """Request for the job of the kernel ``id``, which a thread sends at once."""

    def __init__(self, id: str, request: dict[str, Any]) -> None:
        self._body = {"id": id, **request}
        self._error: BrokerError | None = None
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the portal has answered. Raises BrokerError."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _ask(self) -> None:
        try:
            Broker().ask("POST", "/kernels", self._body)
        except BrokerError as error:
            self._error = error


def submit(id: str, request: dict[str, Any], spec: str) -> Submission | None:
    """Request the job of a new kernel; return None if it may have one already: a kernel with a
    record, which the relay reads.

    The record is written first, so that the job ends even if this process is killed, and the
    signals of HELD are blocked until the relay can handle them.
    """
    session = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    record = Record(id, request, "", "", "", session=session, spec=spec, relay=records.relay_here())
    try:
        if records.path_of(id).exists():
            return None
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        records.write(record)
    except (BadRecord, OSError):
        return None  # the relay says why
    return Submission(id, request)
