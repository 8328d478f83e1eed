"""Handover of a session to another job: the old server lets open pages save and lists its
terminals, the new one opens them again.

The Hub asks the old server, passes its answer to the new one, then routes the session's address
there. Nothing is written to the home for it, and a Hub that is restarted in between asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any, Callable

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from .local_api import LocalHandler, Refused
from .situation import in_thread

RECENT = 25.0  # seconds without a request after which a page counts as closed; it polls every 10
LONGEST = 120.0  # seconds to wait for pages at most
AFTERWARDS = 30.0  # seconds past the deadline until pages are told that no move followed
LARGEST = 64 * 1024  # bytes of a body
MOST = 50  # terminals, and pages
_NAME = re.compile(r"\w{1,64}", re.ASCII)  # as jupyter_server_terminals has it in its routes
_PAGE = re.compile(r"[A-Za-z0-9-]{1,64}")


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    add_handlers(app.web_app, OpenPages(), os.environ.get("SLURM_JOB_ID", ""))


def add_handlers(web_app: Any, pages: OpenPages, job_id: str) -> None:
    """Add the routes to jupyter_server's web application."""
    base = web_app.settings["base_url"]
    arguments = {"pages": pages, "job_id": job_id}
    web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "portal/handover"), HandoverHandler, arguments),
            (url_path_join(base, "portal/handover/page"), PageHandler, arguments),
        ],
    )


class OpenPages:
    """Open pages of JupyterLab, and which of them have saved."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}
        self._saved: set[str] = set()
        self._saving_until = 0.0
        self._news = asyncio.Event()

    @property
    def saving(self) -> bool:
        """Return True while pages should save, and change nothing after that."""
        return self._clock() < self._saving_until

    def open(self) -> set[str]:
        """Return the pages that sent a request lately."""
        now = self._clock()
        self._seen = {page: at for page, at in self._seen.items() if now - at < RECENT}
        return set(self._seen)

    def seen(self, page: str) -> None:
        """Record that the page has asked whether it should save."""
        if page in self._seen or len(self.open()) < MOST:
            self._seen[page] = self._clock()

    def has_saved(self, page: str) -> None:
        """Record that the page has saved what it could."""
        self._saved.add(page)
        self._news.set()

    async def save(self, seconds: float) -> bool:
        """Let all open pages save; return True if all of them have within ``seconds``."""
        self._saved.clear()
        deadline = self._clock() + seconds
        self._saving_until = deadline + AFTERWARDS
        while not self.open() <= self._saved:
            self._news.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), max(0.0, deadline - self._clock()))
            if self._clock() >= deadline:
                break
        return self.open() <= self._saved


class HandoverBase(LocalHandler):
    """Base class of both handlers."""

    def initialize(self, pages: OpenPages, job_id: str) -> None:
        self.pages = pages
        self.job_id = job_id

    def body(self) -> dict[str, Any]:
        """Return the request's JSON object. Raises Refused for anything else."""
        try:
            payload = json.loads(self.request.body) if len(self.request.body) <= LARGEST else None
        except (ValueError, RecursionError):
            payload = None
        if not isinstance(payload, dict):
            raise Refused(400, f"The body must be a JSON object of at most {LARGEST} bytes.")
        return payload

    def terminals(self) -> Any:
        """Return jupyter_server_terminals' manager; None if terminals are switched off."""
        return self.settings.get("terminal_manager")


class HandoverHandler(HandoverBase):
    """``portal/handover``, requested by the Hub with a token of the owner's."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """List what would be lost: ``busy``, the notebooks whose kernels compute now."""
        sessions = await self.settings["session_manager"].list_sessions()
        notebooks = busy(sessions, self.settings["kernel_manager"].list_kernels())
        self.finish(json.dumps({"job_id": self.job_id, "busy": notebooks}))

    @authenticated
    @authorized
    async def post(self) -> None:
        """Let pages save for at most ``seconds``; answer ``saved``, whether all of them did, and
        ``terminals``, each with its ``name`` and ``cwd``."""
        seconds = self.body().get("seconds")
        if type(seconds) not in (int, float) or not 0 <= seconds <= LONGEST:
            raise Refused(400, f"'seconds' must be a number from 0 to {LONGEST:g}.")
        saved = await self.pages.save(seconds)
        terminals = open_terminals(self.terminals())
        self.finish(json.dumps({"saved": saved, "terminals": terminals}))

    @authenticated
    @authorized
    async def put(self) -> None:
        """Open ``terminals`` as another server had them; answer ``opened``, their names."""
        wanted = self.body().get("terminals")
        if not isinstance(wanted, list):
            raise Refused(400, "'terminals' must be a list.")
        # In a thread: a file system that hangs must not block the server.
        terminals = await in_thread(well_formed, wanted, Path.home())
        self.finish(json.dumps({"opened": open_again(self.terminals(), terminals)}))


class PageHandler(HandoverBase):
    """``portal/handover/page``, requested by the pages of JupyterLab."""

    @authenticated
    @authorized
    def post(self) -> None:
        """Count the page of ``{"page": ID}`` as open; with ``"saved": true``, it has saved what it
        could. Answer ``job_id``, and ``saving``: whether pages should save now."""
        body = self.body()
        page = body.get("page")
        if not isinstance(page, str) or not _PAGE.fullmatch(page):
            raise Refused(400, "'page' must be the page's ID.")
        self.pages.seen(page)
        if body.get("saved") is True:
            self.pages.has_saved(page)
        self.finish(json.dumps({"job_id": self.job_id, "saving": self.pages.saving}))


def busy(sessions: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> list[str]:
    """List the notebooks, by path, whose kernels are busy; a kernel without one by its own
    name."""
    named = {
        session["kernel"]["id"]: session.get("path") or session.get("name") or ""
        for session in sessions
    }
    return [
        named.get(kernel["id"]) or f"{kernel['name']} ({kernel['id'][:8]})"
        for kernel in kernels
        if kernel.get("execution_state") == "busy"
    ]


def open_terminals(manager: Any) -> list[dict[str, str]]:
    """List the name and the shell's working directory of each terminal."""
    terminals = []
    for name, terminal in list(getattr(manager, "terminals", {}).items())[:MOST]:
        try:
            directory = str(Path(f"/proc/{terminal.ptyproc.pid}/cwd").readlink())
        except OSError:  # it has just ended, or its directory is another user's
            directory = ""
        terminals.append({"name": name, "cwd": directory})
    return terminals


def well_formed(wanted: list[Any], home: Path) -> dict[str, str]:
    """Return the directories of ``wanted`` by name. A directory that does not exist (any more)
    becomes ``home``; an entry without a valid name of a terminal is left out."""
    directories = {}
    for terminal in wanted[:MOST]:
        name, directory = (
            (terminal.get("name"), terminal.get("cwd")) if isinstance(terminal, dict) else ("", "")
        )
        if isinstance(name, str) and _NAME.fullmatch(name):
            exists = isinstance(directory, str) and usable(directory)
            directories[name] = directory if exists else str(home)
    return directories


def open_again(manager: Any, wanted: dict[str, str]) -> list[str]:
    """Open terminals of these names, except those that exist; return the names of the new ones."""
    if manager is None:
        return []
    opened = [name for name in wanted if name not in manager.terminals]
    for name in opened:
        manager.create(name=name, cwd=wanted[name])
    return opened


def usable(directory: str) -> bool:
    """Return True if a shell can start in ``directory``."""
    if not directory.startswith("/") or "\0" in directory:
        return False
    try:
        return Path(directory).is_dir() and os.access(directory, os.X_OK)
    except (OSError, ValueError):
        return False
