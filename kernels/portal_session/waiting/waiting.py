"""Server extension that answers "Why is my GPU waiting?" to JupyterLab and ``portal-why``."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Collection
from pathlib import Path
from typing import Any, Callable

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..activity import work_roots
from ..job_kernels.broker_handler import BrokerHandler
from ..local_api import LocalHandler, Refused
from ..measurements.gpus import gpu_reader
from ..measurements.processes import Processes
from ..service import ServiceError
from ..situation import in_thread
from .answer import answer_of
from .observation import Observer, cpus

SECONDS, SHORTEST, LONGEST = 5, 2, 20
PATH = "/waiting"  # at the session's broker


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    processes = Processes(
        os.environ.get("SLURM_JOB_ID", ""), os.environ.get("PORTAL_SERVICE_URL", "")
    )
    observer = Observer(
        lambda: processes.working(work_roots(app)), gpu_reader(os.environ).read, cpus(os.environ)
    )
    app.portal_waiting = Waiting(observer)
    path = url_path_join(app.web_app.settings["base_url"], "portal", "waiting")
    app.web_app.add_handlers(".*$", [(path, WaitingHandler, {"waiting": app.portal_waiting})])


class Waiting:
    """Answers, one at a time."""

    def __init__(self, observer: Observer, home: str | None = None) -> None:
        self._observer = observer
        self._home = str(Path.home()) if home is None else home
        self._task: asyncio.Future[dict[str, Any]] | None = None

    async def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """Observe for the body's ``seconds``, and return the answer. Who asks meanwhile gets the
        same answer. Raises ServiceError."""
        seconds = body.get("seconds", SECONDS)
        if type(seconds) not in (int, float) or not SHORTEST <= seconds <= LONGEST:
            raise ServiceError(
                f"'seconds' must be a number from {SHORTEST} to {LONGEST}.", 400, field="seconds"
            )
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(in_thread(self._answer, float(seconds)))
        return await asyncio.shield(self._task)

    def _answer(self, seconds: float) -> dict[str, Any]:
        seen = self._observer.observe(seconds)
        return answer_of(seen, self._home, mounts()).as_dict()


class WaitingHandler(LocalHandler):
    """``POST portal/waiting``: see Waiting.ask."""

    def initialize(self, waiting: Waiting) -> None:
        self.waiting = waiting

    @authenticated
    @authorized
    async def post(self) -> None:
        self.check_owner()
        try:
            self.finish(json.dumps(await self.waiting.ask(self.body())))
        except ServiceError as error:
            raise Refused.by_portal(error) from None


class _BrokerHandler(BrokerHandler):
    """Handler of a request of portal-why."""

    def initialize(self, ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
        self.ask = ask

    async def post(self) -> None:
        await self.answer_body(self.ask)


def broker_routes(waiting: Waiting | None) -> Collection[Any]:
    """Return the broker's routes; none without the extension."""
    return [(PATH, _BrokerHandler, {"ask": waiting.ask})] if waiting else []


def mounts(proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the kinds of file systems by mount point, as this process sees them (proc(5)); {} if
    they cannot be read."""
    try:
        lines = (proc / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    kinds = {}
    for line in lines:
        before, dash, after = line.partition(" - ")
        fields = before.split()
        if dash and len(fields) > 4 and after:
            kinds[_plain(fields[4])] = after.split()[0]  # a later mount hides an earlier one
    return kinds


def _plain(path: str) -> str:
    """Return a path without the octal escapes of spaces and the like."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
