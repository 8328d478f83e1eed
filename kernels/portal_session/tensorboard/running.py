"""TensorBoards of one session: start them, report their state, stop them.

Their state is in the session's private directory, not kept here: those that a notebook started are
listed like those of the page.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..programs.process import PATIENCE, end, start_logged
from ..programs.runtime import Place, Runtime
from . import record
from .folders import FolderRefused, resolve, roots_of

PATH = "portal/tensorboard/"  # below the server's base_url
MOST_RUNNING = 8
MOST_FOLDERS = 50
LONGEST_NAME = 100  # characters
_START = 30.0  # seconds until a program that wrote no state counts as failed


class TooMany(ValueError):
    """Limit of running TensorBoards reached; the text says what to do."""


class TensorBoards:
    """TensorBoards of the session. ``base`` is the folder that relative names start from: the
    server's root."""

    def __init__(
        self, runtime: Runtime, base_url: str, base: str, environ: Mapping[str, str]
    ) -> None:
        self.prefix = base_url + PATH
        self.base = str(Path(base).expanduser())
        self.roots = roots_of(environ)
        self._runtime = runtime
        self._environ = environ
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def list(self) -> list[dict[str, Any]]:
        """List all of them, oldest first, with those that ended with a reason."""
        boards = [self._describe(place) for place in self._runtime.places()]
        return sorted(
            (board for board in boards if board),
            key=lambda board: (board["started"], board["name"]),
        )

    def get(self, number: int) -> dict[str, Any] | None:
        place = self._place(number)
        return self._describe(place) if place else None

    def socket(self, number: int) -> Path | None:
        """Return the socket of number ``number``; None if there is none."""
        place = self._place(number)
        return place.socket if place and place.socket.exists() else None

    def start(self, names: Any, title: Any = None) -> dict[str, Any]:
        """Start a TensorBoard for the folders ``names``, or return the one that shows exactly
        these.

        Raises FolderRefused and TooMany. Returns at once; the list says how far it is.
        """
        if isinstance(names, str):
            names = [names]
        if not isinstance(names, list) or not names:
            raise FolderRefused("Choose a folder.")
        if len(names) > MOST_FOLDERS:
            raise FolderRefused(f"Choose at most {MOST_FOLDERS} folders.")
        folders = list(dict.fromkeys(resolve(name, self.roots, self.base) for name in names))
        living = [board for board in self.list() if board["state"] != "ended"]
        wanted = _clean(title)
        for board in living:
            same = board["folders"] == folders and board["origin"] == "page"
            if same and wanted in ("", board["name"]):
                return board
        if len(living) >= MOST_RUNNING:
            raise TooMany(
                f"{MOST_RUNNING} TensorBoards are running in this session. Stop one first."
            )
        taken = {board["name"] for board in living}
        place = self._runtime.claim()
        about = {
            "name": _unique(wanted or _name_of(folders), taken),
            "folders": folders,
            "started": time.time(),
            "origin": "page",
        }
        record.write(place.about, about)
        self._run(place, folders)
        return self._describe(place) or {}

    def start_all(self, folders: list[str], log: Any) -> None:
        """Start one for all ``folders``, in a session that serves TensorBoard alone; a folder that
        cannot be shown is left out, and listed with the reason."""
        good = []
        for folder in folders:
            try:
                good.append(resolve(folder, self.roots, self.base))
            except FolderRefused as error:
                log.warning("TensorBoard skips a folder. %s", error)
                self._refuse(folder, str(error))
        if good:
            self.start(good[:MOST_FOLDERS])

    def stop(self, number: int) -> bool:
        """End it, within PATIENCE, and forget it. Return False if there is none."""
        place = self._place(number)
        if place is None:
            return False
        state = record.read(place.state)
        process = self._processes.pop(number, None)
        if process is not None:
            end(process)
        elif record.is_alive(state):
            _end_other(state)
        place.remove()
        return True

    def close(self) -> None:
        """End all of them with the session."""
        for place in self._runtime.places():
            state = record.read(place.state)
            if record.is_alive(state):
                with contextlib.suppress(OSError):
                    os.kill(state["pid"], signal.SIGTERM)
        self._runtime.remove()

    def _refuse(self, folder: str, reason: str) -> None:
        place = self._runtime.claim()
        about = {"name": _name_of([folder]), "folders": [], "started": time.time()}
        record.write(place.about, {**about, "origin": "page"})
        record.write(place.state, {"phase": "ended", "reason": reason})

    def _run(self, place: Place, folders: list[str]) -> None:
        logdir = folders[0]
        if len(folders) > 1:
            # TensorBoard's own advice for several folders; --logdir_spec breaks at commas.
            place.links.mkdir(mode=0o700)
            taken: set[str] = set()
            for folder in folders:
                name = _unique(Path(folder).name or "root", taken)
                taken.add(name)
                (place.links / name).symlink_to(folder)
            logdir = str(place.links)
        environ = {**self._environ, "PORTAL_TENSORBOARD_PLACE": str(place.path)}
        # Not -I: it is the user's own program, with the plugins that the user installed. The
        # working directory is on its search path, but empty and private to the user.
        argv = [sys.executable, "-m", "portal_session.tensorboard.program", "--logdir", logdir]
        with place.log.open("wb") as log:
            self._processes[place.number] = start_logged(argv, place.path, environ, log)

    def _place(self, number: int) -> Place | None:
        path = self._runtime.path / str(number)
        return Place(path) if path.is_dir() else None

    def _describe(self, place: Place) -> dict[str, Any] | None:
        about = record.read(place.about)
        state = record.read(place.state)
        if not about:
            return None
        phase = state.get("phase", "starting")
        reason = state.get("reason", "")
        process = self._processes.get(place.number)
        code = process.poll() if process is not None else None
        # A process of ours is known by its exit code, which comes after its last thread ended.
        alive = record.is_alive(state) if process is None else code is None
        if phase != "ended" and code is not None:
            phase, reason = "ended", _ending(code, place)
        elif phase != "ended" and state and not alive:
            if about.get("origin") == "notebook":
                place.remove()  # stopped in its notebook or terminal
                return None
            phase, reason = "ended", "TensorBoard is no longer running."
        elif not state and process is None and time.time() - about.get("started", 0) > _START:
            phase, reason = "ended", "TensorBoard did not start."
        elif phase in ("reading", "ready") and not place.socket.exists():
            phase = "starting"  # it reads the logs, but does not answer yet
        return {
            "number": place.number,
            "name": str(about.get("name", "")),
            "folders": [str(folder) for folder in about.get("folders", [])],
            "started": about.get("started", 0),
            "origin": about.get("origin", "page"),
            "url": f"{self.prefix}{place.number}/",
            "state": phase,
            "words": reason,
            "files": state.get("files", 0),
            "read": state.get("read", 0),
            "total": state.get("total", 0),
            "skipped": state.get("skipped", []),
        }


def _clean(title: Any) -> str:
    """Return a name to show: one line, of printable characters."""
    if not isinstance(title, str):
        return ""
    return "".join(c if c.isprintable() else " " for c in title).strip()[:LONGEST_NAME]


def _name_of(folders: list[str]) -> str:
    names = [Path(folder).name or folder for folder in folders]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return _clean(", ".join(names[:3]) + more) or "TensorBoard"


def _unique(name: str, taken: set[str]) -> str:
    count = 1
    unique = name
    while unique in taken:
        count += 1
        unique = f"{name} ({count})"
    return unique


def _ending(code: int, place: Place) -> str:
    """Return why a program of ours ended without giving a reason itself."""
    if code == -signal.SIGKILL:
        return "The system killed TensorBoard, probably because the job ran out of memory."
    with contextlib.suppress(OSError):
        lines = place.log.read_text(errors="replace").strip().splitlines()
        if lines:
            return f"TensorBoard ended: {_clean(lines[-1])}"
    return f"TensorBoard ended with code {code}."


def _end_other(state: dict[str, Any]) -> None:
    """End a program that a kernel started, by the pid in its state."""
    with contextlib.suppress(OSError):
        os.kill(state["pid"], signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while record.is_alive(state) and time.monotonic() < deadline:
        time.sleep(0.05)
    if record.is_alive(state):
        with contextlib.suppress(OSError):
            os.kill(state["pid"], signal.SIGKILL)
