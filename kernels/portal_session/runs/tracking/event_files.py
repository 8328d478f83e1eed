"""Event files of TensorBoard that one point writes.

All below the point's own folder of logs are its own. In the folders where programs write them by
default, beside those of other points and sessions, a file is the point's if its name has this host
and one of the point's processes, and a time after the point's start (TensorBoard's names have all
three: tensorboard/summary/writer/event_file_writer.py). Others may use such a name: a file counts
if it belongs to the user, and the reader opens it so (`event_reader.opened`).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

# PyTorch's and Keras's examples', Lightning's, and what is often chosen. "" is the folder itself.
_USUAL = ("runs", "logs", "log", "lightning_logs", "tb_logs", "tensorboard")
_DEPTH = 4  # folders below those
_MOST_FOLDERS = 200  # that are looked at: the file system may be slow, and others look at it too
_MOST_OWN_FOLDERS = 1000  # the same of the point's own: add_scalars of PyTorch makes one for a name
_MOST_FILES = 500  # that are read, each with an open file
_OF_RUN = "run.json"  # `plan.FILE`: its folder has the points of a run


class EventFiles:
    """Event files of a point that began at ``started`` (Unix seconds). ``logs``: its own folder;
    ``cwd``: its working directory; ``mark``: an environment variable, NAME=VALUE, that only its
    processes have."""

    def __init__(self, logs: Path, cwd: Path, started: float, mark: str) -> None:
        self._logs, self._cwd, self._started = logs, cwd, int(started)
        self._mark = os.fsencode(mark)
        self._processes: set[str] = set()  # that were seen: a file may be found after their end
        host = re.escape(socket.gethostname())
        name = rf"events\.out\.tfevents\.([0-9]{{1,12}})\.{host}\.([0-9]+)\.[0-9]+(\.[^0-9].*)?"
        self._name = re.compile(name)
        self._found: set[Path] = set()
        self._unread: set[Path] = set()
        self._cut = False  # there are more folders than those that were looked at

    def new_files(self) -> list[Path]:
        """Return the files that are new since the last look. Blocks as long as the file system."""
        self._processes.update(children())
        own = (path for path in self._walked(self._logs) if ".tfevents." in path.name)
        usual = (
            path
            for folder in (self._cwd, *(self._cwd / name for name in _USUAL))
            for path in self._walked(folder, 0 if folder == self._cwd else _DEPTH)
            if self._is_own(path.name)
        )
        new = []
        for path in (*own, *usual):
            if path in self._found:
                continue
            if len(self._found) < _MOST_FILES:
                self._found.add(path)
                new.append(path)
            elif len(self._unread) < _MOST_FILES:
                self._unread.add(path)
        return new

    @property
    def note(self) -> str:
        """Sentence about files that were found and are not read; "" if all are."""
        if not self._unread and not self._cut:
            return ""
        return (
            f"Metrics are missing: of TensorBoard's event files, the first {_MOST_FILES} are read, "
            f"in {_MOST_OWN_FOLDERS:,} folders, and there are more"
        )

    def _is_own(self, name: str) -> bool:
        parts = self._name.fullmatch(name)
        if parts is None or int(parts[1]) < self._started:
            return False
        process = parts[2]
        if process not in self._processes:
            with contextlib.suppress(OSError):
                variables = Path("/proc", process, "environ").read_bytes().split(b"\0")
                if self._mark in variables:
                    self._processes.add(process)
        return process in self._processes

    def _walked(self, folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
        """Yield the files below a folder, ``depth`` folders deep; those of new folders first."""
        level, left = [folder], _MOST_OWN_FOLDERS if folder == self._logs else _MOST_FOLDERS
        for _ in range(depth + 1):
            below: list[tuple[float, Path]] = []
            for place in level[:left]:
                with contextlib.suppress(OSError):
                    if (place / _OF_RUN).exists():
                        continue
                    with os.scandir(place) as entries:
                        listed = list(entries)
                    for entry in listed:
                        path = place / entry.name
                        if entry.is_file(follow_symlinks=False):
                            if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                                yield path
                        elif not entry.is_dir(follow_symlinks=False):
                            continue
                        elif not entry.name.startswith("."):
                            below.append((entry.stat(follow_symlinks=False).st_mtime, path))
            self._cut |= folder == self._logs and len(level) > left
            left -= len(level[:left])
            level = [path for _, path in sorted(below, reverse=True)]


def children() -> set[str]:
    """Return the processes that this one has started and that run, by number."""
    numbers: set[str] = set()
    for thread in Path("/proc/self/task").glob("*/children"):  # proc(5)
        with contextlib.suppress(OSError):
            numbers.update(thread.read_text().split())
    return numbers
