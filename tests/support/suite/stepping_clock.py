"""System clocks that a test sets, while the monotonic clock goes on unchanged: this process's
(SteppingClock), or that of programs to start (WallClock)."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "wall_clock.c"


class SteppingClock:
    """Clock whose ``step`` moves time.time() by so many seconds, as ntpd or an admin does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self._ahead = time.time, 0.0
        monkeypatch.setattr(time, "time", lambda: self._real() + self._ahead)

    def step(self, seconds: float) -> None:
        self._ahead += seconds


class WallClock:
    """Clock of the programs that are started with ``environment``; its files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        library, self.file = folder / "wall_clock.so", folder / "ahead"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE], check=True
        )
        self.file.write_bytes(struct.pack("=q", 0))
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK": str(self.file)}

    def set(self, ahead: int) -> None:
        """Set it to so many seconds ahead of the machine's."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("=q", ahead))
