"""Reports to the portal of what benchmark notebooks measured.

A notebook shows its result as an output of the MIME type below. Any kernel can do that: with any
Python, inside a container or not, and without knowing the portal.

    display({MIME: {"benchmark": "resnet50", "precision": "fp16", "gpus": 2,
                    "images_per_second": 1234.5}, "text/plain": "…"}, raw=True)
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from typing import Any

from ..service import Address, Service, ServiceError

MIME = "application/vnd.data-scientist-portal.measurement+json"
LARGEST = 2000  # characters of one measurement
MOST = 20  # waiting measurements
PAUSE = 1.5  # seconds between two measurements: the service takes one a second
TRIES = 5


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension, after ``unattended``. ``app`` is jupyter_server's ServerApp."""
    address = Address.from_environ(os.environ)
    unattended = getattr(app, "portal_unattended", None)
    if address is not None and unattended is not None:
        sender = MeasurementSender(Service(address, os.environ), app.log)
        unattended.listeners[MIME] = sender.take


class MeasurementSender:
    """Sender of measurements to the portal's ``service``, one after the other, in a thread of its
    own that lives while there are some."""

    def __init__(self, service: Any, log: Any, pause: float = PAUSE) -> None:
        self._service = service
        self._log = log
        self._pause = pause
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(MOST)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, measurement: Any) -> None:
        """Queue a measurement that a cell showed. Returns at once; raises nothing."""
        try:
            text = json.dumps(measurement, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            text = ""
        if not isinstance(measurement, dict) or not text or len(text) > LARGEST:
            self._log.warning("A measurement displayed by a notebook cannot be read.")
            return
        with self._lock:
            try:
                self._waiting.put_nowait(measurement)
            except queue.Full:
                self._log.warning("A notebook displays measurements too fast for the portal")
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._send_all, name="portal-measurements", daemon=True
                )
                self._thread.start()

    def _send_all(self) -> None:
        while True:
            with self._lock:
                if self._waiting.empty():
                    self._thread = None
                    return
                measurement = self._waiting.get_nowait()
            self._send(measurement)
            time.sleep(self._pause)

    def _send(self, measurement: dict[str, Any]) -> None:
        for left in reversed(range(TRIES)):
            try:
                self._service.ask("POST", "session/measurements", measurement)
            except ServiceError as error:
                if left and error.status in (429, 503):
                    time.sleep(max(self._pause, error.retry_after))
                    continue
                self._log.warning("The portal did not accept a measurement: %s", error)
            except Exception as error:  # any error: the session goes on
                self._log.warning("A measurement could not be sent: %r", error)
            else:
                self._log.info("The portal accepted the measurement %s", measurement)
            return
