"""Telemetry to the portal's service: use of this session's GPUs and memory, and its last activity.

Runs in a thread of its own that nothing waits for: a driver that hangs or a service that is away
never blocks the server or its end. Reports are shown to the session's owner and on the cluster
page; usage is not accounted from them.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import OpenerDirector, Request

from ..service import LONGEST_RETRY_AFTER, TIMEOUT, Address, Service, opener, retry_after
from ..startup import StartupReporter
from .gpus import gpu_reader
from .memory import job_memory

SHORTEST = 2.0  # seconds between two reports; the service takes no more
LONGEST_WAIT = LONGEST_RETRY_AFTER  # while the service refuses, or does not answer


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    reporter = make_reporter(os.environ, app.log)
    if reporter is not None:
        app.portal_reporter = reporter
        activity = getattr(app, "portal_activity", None)
        if activity is not None:
            reporter.activity = activity.report
        address = Address.from_environ(os.environ)
        if address is not None:
            reporter.startup = StartupReporter(Service(address, os.environ), os.environ, app.log)
        atexit.register(reporter.stop)
        reporter.start()


def make_reporter(environ: Mapping[str, str], log: Any) -> Reporter | None:
    """Return the reporter that the session's variables describe; None if there is no service.

    PORTAL_SERVICE_URL: the service as nodes reach it. PORTAL_TELEMETRY_INTERVAL: seconds.
    """
    service = environ.get("PORTAL_SERVICE_URL", "")
    token = environ.get("JUPYTERHUB_API_TOKEN", "")
    job_id = environ.get("SLURM_JOB_ID", "")
    try:
        interval = float(environ.get("PORTAL_TELEMETRY_INTERVAL", ""))
    except ValueError:
        return None
    named = urlsplit(service).scheme in ("http", "https") and re.fullmatch("[0-9]{1,10}", job_id)
    if not (named and token and 0 < interval < float("inf")):
        return None
    url = service.rstrip("/") + "/api/v1/telemetry"
    return Reporter(url, token, job_id, max(SHORTEST, interval), environ, log)


class Reporter(threading.Thread):
    """Thread that reports every ``interval`` seconds until the process ends, or ``stop`` is
    called."""

    def __init__(
        self,
        url: str,
        token: str,
        job_id: str,
        interval: float,
        environ: Mapping[str, str],
        log: Any,
    ) -> None:
        super().__init__(name="portal-telemetry", daemon=True)
        self._url = url
        self._token = token
        self._job_id = job_id
        self._interval = interval
        self._environ = environ
        self._log = log
        self._gpus = gpu_reader(environ)
        self.activity: Callable[[], dict[str, Any] | None] = lambda: None
        self.startup: StartupReporter | None = None
        self._end = threading.Event()
        self._opener: OpenerDirector | None = None
        self._logged: str | None = None  # the last outcome in the log; "" is success

    def stop(self) -> None:
        self._end.set()

    def run(self) -> None:
        # The sessions of a class start all at once: spread their reports.
        wait = random.uniform(0, self._interval)  # noqa: S311 - not a secret
        while not self._end.wait(wait):
            try:
                problem, asked = self._post(self.report())
            except Exception as error:  # any error: the session goes on
                problem, asked = f"could not be made ({error!r})", 0.0
            self._tell(problem)
            if self.startup is not None and not problem:
                self.startup.report_startup()
            if problem:
                wait = max(min(max(self._interval, wait) * 2, LONGEST_WAIT), asked)
            else:
                wait = self._interval
        self._gpus.close()

    def report(self) -> dict[str, Any]:
        """Return the content of the service's model TelemetryReport."""
        used, limit = job_memory(self._job_id)
        return {
            "job_id": self._job_id,
            "gpus": self._gpus.read(),
            "memory_used": used,
            "memory_limit": limit,
            "activity": self.activity(),
        }

    def _post(self, report: dict[str, Any]) -> tuple[str, float]:
        """Send a report. Return ("", 0) or the problem in words, and Retry-After in seconds."""
        if self._opener is None:
            self._opener = opener(self._environ)
        request = Request(  # noqa: S310 - make_reporter lets http and https through
            self._url,
            data=json.dumps(report, allow_nan=False).encode(),
            headers={
                "Authorization": f"token {self._token}",
                "Content-Type": "application/json",
                "User-Agent": "portal-session",
            },
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                response.read(1024)
        except HTTPError as error:
            with error:
                return f"was answered with {error.code} ({error.reason})", retry_after(error)
        except URLError as error:
            return f"could not be sent ({error.reason})", 0.0
        return "", 0.0

    def _tell(self, problem: str) -> None:
        if problem == self._logged:
            return
        if problem:
            self._log.warning(
                "The report of this session's GPUs and memory %s; retrying, at most %.0f seconds "
                "apart. The session itself is not affected.",
                problem,
                LONGEST_WAIT,
            )
        else:
            self._log.info(
                "The GPU and memory usage of this session is reported to the portal every %.0f "
                "seconds.",
                self._interval,
            )
        self._logged = problem
