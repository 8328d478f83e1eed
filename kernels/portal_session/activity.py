"""Activity of a session: cells, terminals, and programs that compute.

Reported to the Hub in place of jupyter_server's own ``last_activity``, for which every request
counts, even the polling of a forgotten page; and to the portal with each report, as ages in
seconds, which do not change when a clock is set on either side.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from .measurements.processes import Processes

PERIOD = 10.0  # seconds between two looks
STALE = 3 * PERIOD + 30.0  # an older look is not reported: the server hangs

# Message types that are no execution, in addition to those that jupyter_server ignores itself:
# widgets and the debugger of an open page, completions and history.
_NOT_EXECUTION = (
    "comm_open",
    "comm_msg",
    "comm_close",
    "complete_request",
    "complete_reply",
    "inspect_request",
    "inspect_reply",
    "history_request",
    "history_reply",
    "is_complete_request",
    "is_complete_reply",
    "iopub_welcome",
)
_SAME = timedelta(seconds=1)  # two clocks never agree in the milliseconds
_ACTS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    job_id, portal = (os.environ.get(name, "") for name in ("SLURM_JOB_ID", "PORTAL_SERVICE_URL"))
    activity = Activity(app, Processes(job_id, portal))
    app.portal_activity = activity
    activity.begin()


class _Look(NamedTuple):
    """State of the session at one look, times by the monotonic clock; ``processes`` is None if
    /proc does not tell."""

    at: float
    busy_kernels: int
    kernel: float
    terminal: float
    processes: float | None


class Activity:
    """Activity of one server. ``clock`` returns monotonic seconds."""

    def __init__(
        self, app: Any, processes: Any, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._processes = processes
        self._clock = clock
        began = clock()
        self._acted_at = began
        self._marks: dict[Any, Any] = {}  # last_activity of each kernel and terminal
        self._last: _Look | None = None
        self._kernel_at = self._terminal_at = self._processes_at = began
        self._reported: datetime | None = None

    def begin(self) -> None:
        """Start watching, in the server's event loop."""
        manager = self._app.kernel_manager
        names = getattr(manager, "untracked_message_types", None)
        if names is not None:
            manager.untracked_message_types = [
                *names,
                *(name for name in _NOT_EXECUTION if name not in names),
            ]
        self._app.web_app.last_activity = self.last_activity
        self._app.io_loop.spawn_callback(self._watch)

    async def _watch(self) -> None:
        # Here, since JupyterHub's extension sets its log function after all extensions are loaded.
        self._note_requests(self._app.web_app.settings)
        while True:
            try:
                await self.record_changes()
            except Exception:  # any error: the session goes on, the next look may work
                self._app.log.warning("The session's activity is not known", exc_info=True)
            await asyncio.sleep(PERIOD)

    async def record_changes(self) -> None:
        """Record what has changed since the last look."""
        now, busy = self._clock(), 0
        marks: dict[Any, Any] = {}

        def changed(key: tuple[str, Any], item: Any) -> bool:
            """Return True if ``item`` is new or its own ``last_activity`` has changed since the
            last look."""
            marks[key] = getattr(item, "last_activity", None)
            return key not in self._marks or self._marks[key] != marks[key]

        for kernel_id, kernel in _items(self._app.kernel_manager, "_kernels"):
            state = getattr(kernel, "execution_state", None)
            busy += state == "busy"
            if changed(("kernel", kernel_id), kernel) or state == "busy":
                self._kernel_at = now
        terminals = self._app.web_app.settings.get("terminal_manager")
        for name, terminal in _items(terminals, "terminals"):
            if changed(("terminal", name), terminal):
                self._terminal_at = now
        self._marks = marks
        kernel_at, terminal_at = self._kernel_at, self._terminal_at
        # A node may have thousands of processes: not in the event loop.
        used = await asyncio.to_thread(self._processes.used_cpu, work_roots(self._app), now)
        if used is not False:
            self._processes_at = now
        known = None if used is None and self._last is not None else self._processes_at
        self._last = _Look(now, busy, kernel_at, terminal_at, known)

    def report(self) -> dict[str, Any] | None:
        """Return the portal's SessionActivity, ages in seconds; None while unknown. May be called
        in any thread."""
        last, now = self._last, self._clock()
        if last is None or now - last.at > STALE:
            return None

        def age(at: float | None) -> float | None:
            return None if at is None else round(max(0.0, now - at), 1)

        return {
            "busy_kernels": last.busy_kernels,
            "kernel": age(last.kernel),
            "terminal": age(last.terminal),
            "processes": age(last.processes),
        }

    def last_activity(self) -> datetime:
        """Return the time (UTC) of the last activity, for the Hub.

        Never earlier than the value returned before: JupyterHub's server would then report nothing
        and be taken for silent.
        """
        latest = max(self._kernel_at, self._terminal_at, self._processes_at, self._acted_at)
        at = datetime.now(timezone.utc) - timedelta(seconds=max(0.0, self._clock() - latest))
        if self._reported is None or at - self._reported > _SAME:
            self._reported = at
        return self._reported

    def _note_requests(self, settings: dict[str, Any]) -> None:
        """Count what a person does in Lab besides cells: saving and uploading files, opening
        notebooks. Reads do not count, since pages make them by themselves."""
        before = settings.get("log_function")
        base = settings.get("base_url", "/")
        own = tuple(
            f"{base}{path}"
            for path in ("api/", "lab/api/", "portal/tensorboard/api/", "portal/uploads")
        )

        def log(handler: Any) -> None:
            request = handler.request
            if request.method in _ACTS and request.path.startswith(own):
                if handler.get_status() < 400:
                    self._acted_at = self._clock()
            if before is not None:
                before(handler)

        settings["log_function"] = log


def work_roots(app: Any) -> set[int]:
    """Return the processes of kernels and of terminals' shells. ``app`` is jupyter_server's
    ServerApp."""
    terminals = app.web_app.settings.get("terminal_manager")
    numbers = {
        _number(getattr(kernel, "provisioner", None), "pid")
        for _, kernel in _items(app.kernel_manager, "_kernels")
    } | {
        _number(getattr(terminal, "ptyproc", None), "pid")
        for _, terminal in _items(terminals, "terminals")
    }
    return numbers - {0}


def _items(manager: Any, name: str) -> list[tuple[Any, Any]]:
    """Return the items of a manager's dictionary; [] if there is no such manager."""
    return list((getattr(manager, name, None) or {}).items())


def _number(process: Any, name: str) -> int:
    """Return a process id; 0 if there is none."""
    value = getattr(process, name, None)
    return value if isinstance(value, int) else 0
