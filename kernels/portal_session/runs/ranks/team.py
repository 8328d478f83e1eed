"""Files by which the ranks of a point find each other and follow each other, in a folder of mode
700 in the user's home. A rank writes only files that begin with its number; rank 0 all others.

Every rank writes there every two seconds, which makes an NFS client look at the folder again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..disk import read_regular
from .layout import Layout

# Endings of a rank's files: what it has found out at its start; its life; how its script ended, and
# the place of its error's time (`library.portal_main`); its stack; what bash says of its program.
HERE, ALIVE, END, ERROR, STACK, OVER = "here", "alive", "end", "error", "stack", "over"
TRACE = "trace"  # the place of its stacks
# Of rank 0: the environment starts on its node; it has reported the end of the point.
STARTED, TOLD = "started", "told"
KILLED = "PORTAL_RANK_0_KILLED"  # exit code of rank 0, which could not report the end itself
SPEAKS = "speaks"  # file of the rank that speaks for rank 0
GO, HALT, STACKS, EXCLUDE = "go", "halt", "stacks", "exclude"  # rank 0's files
STOP, SAVE = "stop", "save"  # deploy/session.sh's: signals of Slurm
_LARGEST = 1024 * 1024


class Team:
    """The ranks' folder, for the rank of ``layout``."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._number = 0

    def path(self, ending: str, rank: int | None = None) -> Path:
        """Return the path of a rank's file; by default of this one's."""
        number = self.layout.rank if rank is None else rank
        return self.layout.place / f"{number}.{ending}"

    def write(self, ending: str, content: Mapping[str, Any]) -> None:
        """Write a file of this rank, whole or not at all. Raises OSError."""
        _write(self.path(ending), content)

    def write_for_all(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file for all. Raises OSError."""
        _write(self.layout.place / name, content)

    def read(self, ending: str, rank: int) -> dict[str, Any] | None:
        """Return what a rank has written; None if it has not."""
        return _read(self.path(ending, rank))

    def of_lead(self, name: str) -> dict[str, Any] | None:
        """Return what rank 0 has written for all; None if it has not."""
        return _read(self.layout.place / name)

    def has(self, name: str) -> bool:
        """Return True if there is a file of this name."""
        return (self.layout.place / name).exists()

    def claim(self, name: str) -> bool:
        """Make a file of this name; return False if another rank has. Raises OSError."""
        with contextlib.suppress(FileExistsError):
            (self.layout.place / name).touch(exist_ok=False)
            return True
        return False

    def over(self, rank: int) -> tuple[int, str] | None:
        """Return the exit code and the node of a rank's program that has ended; None if it has
        not."""
        try:
            code, _, node = self.path(OVER, rank).read_text().strip().partition(" ")
            return int(code), node
        except (OSError, ValueError):
            return None

    def answers(self) -> tuple[dict[int, dict[str, Any]], dict[int, tuple[int, str]]]:
        """Return what all ranks that are here say of themselves, and the ends of those whose
        programs have ended."""
        ranks = range(self.layout.size)
        here = {rank: about for rank in ranks if (about := self.read(HERE, rank))}
        return here, {rank: end for rank in ranks if (end := self.over(rank))}

    def beat(self, about: Mapping[str, Any]) -> None:
        """Say that this rank lives, and what it does."""
        self._number += 1
        with contextlib.suppress(OSError):  # a full disk: the others see that nothing comes
            self.write(ALIVE, {"number": self._number, **about})

    def moment(self, ending: str, rank: int) -> float | None:
        """Return when a rank's file was written, by the clock of the file system, which is the same
        for all nodes; None without one."""
        try:
            return self.path(ending, rank).stat().st_mtime
        except OSError:
            return None

    def skew(self) -> float:
        """Return how many seconds this node's clock is ahead of the file system's. Raises
        OSError."""
        path = self.path("clock")
        path.write_text("")
        now = time.time()
        return now - path.stat().st_mtime


def _write(path: Path, content: Mapping[str, Any]) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps(content))
    new.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(read_regular(path, _LARGEST, own=True))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
