"""CPU use of the programs in the session's kernels and terminals.

A training run in a terminal may write nothing for hours, and what a cell has started goes on after
the cell has ended. The server itself, and what it runs for pages (TensorBoard, language servers),
is no work of a person.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from .memory import job_in

SHARE = 0.1  # of one core: Jupyter's idle kernels take less than a tenth of this
_VIEWERS = frozenset(
    {"tensorboard", "tensorboard.main", "portal-tensorboard", "portal_session.tensorboard.program"}
)


class _Process(NamedTuple):
    parent: int
    born: int  # in clock ticks after boot; with the number, it identifies the process
    ticks: int  # CPU time of itself and of its ended children


class Processes:
    """Processes of the job. ``root`` holds /proc; ``server`` is the server's own process number.

    ``portal`` is PORTAL_SERVICE_URL: another portal's cluster, which may share nodes with this
    one, may use the same job ids.
    """

    def __init__(
        self, job_id: str, portal: str = "", root: Path = Path("/"), server: int | None = None
    ) -> None:
        self._job_id = job_id.encode()
        self._portal = b"\0PORTAL_SERVICE_URL=" + portal.encode() + b"\0" if portal else b""
        self._proc = root / "proc"
        self._server = os.getpid() if server is None else server
        self._before: dict[tuple[int, int], int] = {}  # (number, born): ticks
        self._known: dict[tuple[int, int], tuple[bool, bool]] = {}  # (of this job, a viewer)
        self._looked_at: float | None = None

    def used_cpu(self, roots: Collection[int], now: float) -> bool | None:
        """Return True if they used at least ``SHARE`` of a core since the look before; None at the
        first look, and if /proc cannot be read.

        ``roots``: the processes of kernels and of terminals' shells. ``now``: seconds of a
        monotonic clock.
        """
        processes = self._read()
        if not processes:
            return None
        counted = {
            (number, processes[number].born): processes[number].ticks
            for number in self._working(processes, frozenset(roots))
        }
        before, began = self._before, self._looked_at
        self._before, self._looked_at = counted, now
        if began is None or now <= began:
            return None
        used = sum(max(0, ticks - before.get(key, 0)) for key, ticks in counted.items())
        return used / os.sysconf("SC_CLK_TCK") >= SHARE * (now - began)

    def working(self, roots: Collection[int]) -> set[int]:
        """Return the processes that run in kernels and terminals, or were left behind by them."""
        return self._working(self._read(), frozenset(roots))

    def _working(self, processes: dict[int, _Process], roots: frozenset[int]) -> set[int]:
        alive = {(number, process.born) for number, process in processes.items()}
        self._known = {key: about for key, about in self._known.items() if key in alive}
        return {number for number in processes if self._counts(number, processes, roots)}

    def _counts(self, number: int, all_of_them: dict[int, _Process], roots: frozenset[int]) -> bool:
        """Return True if the process runs in a kernel or terminal, or was left behind by one."""
        first, steps = number, 0
        while steps < 1000:
            steps += 1
            if number == self._server or self._viewer(number, all_of_them):
                return False
            if number in roots:
                return True
            process = all_of_them.get(number)
            if process is None or process.parent <= 1 or process.parent not in all_of_them:
                break
            number = process.parent
        # No root among its ancestors: left behind, or what the server itself runs in.
        return first not in self._above_server(all_of_them) and self._of_job(first, all_of_them)

    def _above_server(self, all_of_them: dict[int, _Process]) -> set[int]:
        above, number = set(), self._server
        while number in all_of_them and number not in above:
            above.add(number)
            number = all_of_them[number].parent
        return above

    def _viewer(self, number: int, all_of_them: dict[int, _Process]) -> bool:
        return number in all_of_them and self._about(number, all_of_them[number])[1]

    def _of_job(self, number: int, all_of_them: dict[int, _Process]) -> bool:
        return self._about(number, all_of_them[number])[0]

    def _about(self, number: int, process: _Process) -> tuple[bool, bool]:
        key = (number, process.born)
        if key not in self._known:
            args = self._bytes(number, "cmdline").split(b"\0")[:3]
            names = {word.rpartition(b"/")[2].decode("ascii", "replace") for word in args}
            environ = b"\0" + self._bytes(number, "environ")
            own = bool(self._job_id) and job_in(environ) == self._job_id
            self._known[key] = (own and self._portal in environ, not _VIEWERS.isdisjoint(names))
        return self._known[key]

    def _bytes(self, number: int, name: str) -> bytes:
        try:
            return (self._proc / str(number) / name).read_bytes()
        except OSError:
            return b""

    def _read(self) -> dict[int, _Process]:
        """Return this account's processes by number, from /proc/PID/stat (proc(5))."""
        processes: dict[int, _Process] = {}
        try:
            numbers = [entry for entry in self._proc.iterdir() if entry.name.isdigit()]
        except OSError:
            return processes
        for entry in numbers:
            try:
                if entry.stat().st_uid != os.getuid():
                    continue
                # The name in parentheses may hold anything, spaces and parentheses included.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                processes[int(entry.name)] = _Process(
                    parent=int(fields[1]),
                    born=int(fields[19]),
                    ticks=sum(int(field) for field in fields[11:15]),
                )
            except (OSError, ValueError, IndexError):
                continue  # it has ended meanwhile
        return processes
