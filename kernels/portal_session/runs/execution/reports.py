"""Reports of a point to the portal's service, in a thread that the point does not wait for."""

from __future__ import annotations

import random
import threading
import time
from typing import Any, Callable

from ...service import Service, ServiceError

SHORTEST = 5.0  # seconds between two reports
# Seconds after which a report is repeated: one may have been lost, and its answer says whether
# somebody looks at the point.
_UNCHANGED = 20.0
_PAUSES = (1.0, 2.0, 5.0, 10.0)  # seconds between the tries of the last report
_PATH = "session/points"
_LONGEST = 2000  # characters of a message
_LARGE = ("curves", "conditions")
# By asking again, these do not change; others may: the portal learns of a new job after a moment.
_GIVES_UP = frozenset({400, 409, 413, 422})
_LONGEST_WAIT = 20.0  # seconds between two reports while the portal takes none


class Reports(threading.Thread):
    """Reports of one point. ``about``: what each of them has (point, job, attempt); ``state``
    returns the rest, and may be slow; its "curves" and "conditions" are sent only if they have
    changed. ``on_answer`` is called with the portal's answers, in this thread."""

    def __init__(
        self,
        service: Service | None,
        about: dict[str, Any],
        state: Callable[[], dict[str, Any]],
        on_answer: Callable[[dict[str, Any]], None] = lambda answer: None,
    ) -> None:
        super().__init__(name="portal-reports", daemon=True)
        self._service, self._about, self._state = service, about, state
        self._on_answer = on_answer
        self._end = threading.Event()
        self._sending = threading.Lock()

    def run(self) -> None:
        """Report what has changed, until `finish`."""
        last_report: dict[str, Any] = {}
        sent_at, wait = 0.0, random.uniform(0, 1)  # noqa: S311 - the tasks of an array start at once
        while not self._end.wait(wait):
            jitter = random.uniform(1, 1.4)  # noqa: S311 - not a secret
            report = self._state()
            if report == last_report and time.monotonic() - sent_at < _UNCHANGED:
                wait = SHORTEST * jitter
                continue
            with self._sending:
                if self._end.is_set():
                    return
                error = self._send(_without_known(report, last_report))
            if error is None:
                last_report, sent_at, wait = report, time.monotonic(), SHORTEST * jitter
            elif error.status in _GIVES_UP:
                return
            else:
                wait = min(max(wait, SHORTEST) * 1.5 * jitter, _LONGEST_WAIT)
                wait = max(wait, error.retry_after)

    def finish(self, report: dict[str, Any], patience: float) -> str:
        """Send the last report, again and again for ``patience`` seconds; return "" or why the
        portal does not have it. Blocks."""
        deadline = time.monotonic() + patience
        self._end.set()
        if not self._sending.acquire(timeout=patience):
            return "The portal does not answer."
        tries = 0
        while True:
            error = self._send(report)
            if error is None:
                return ""
            pause = max(_PAUSES[min(tries, len(_PAUSES) - 1)], error.retry_after)
            if error.status in _GIVES_UP or time.monotonic() + pause > deadline:
                return str(error)
            time.sleep(pause)
            tries += 1

    def _send(self, report: dict[str, Any]) -> ServiceError | None:
        if self._service is None:
            return ServiceError("The portal's address is not set in this job.", 403)
        whole = {**self._about, **report}
        whole["message"] = str(whole.get("message", ""))[:_LONGEST]
        try:
            self._on_answer(self._service.ask("POST", _PATH, whole))
        except ServiceError as error:
            return error
        return None


def _without_known(report: dict[str, Any], last_report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without the curves and conditions that the portal has: they are the largest
    parts."""
    known = {
        name for name in _LARGE if name in report and report[name] == last_report.get(name, {})
    }
    return {name: value for name, value in report.items() if name not in known}
