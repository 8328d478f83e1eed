"""``make test`` without ARGS: the whole suite, in three processes of pytest side by side.

What waits for Slurm and for browsers leaves room for the rest: on two cores all together take
little more than the longest alone. Each has a demo of its own; what is slow to make is shared
(PORTAL_CACHE). Their output goes to build/test-*.log, and to the terminal when all are done.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build"
PARTS = {
    "hub": ["tests/hub"],
    "browser": ["tests/browser"],
    "rest": ["tests", "--ignore=tests/hub", "--ignore=tests/browser"],
}
_EVERY = 60.0  # seconds between two lines that say how far they are


def main() -> int:
    """1 when one of them has failed."""
    BUILD.mkdir(exist_ok=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, words in PARTS.items():
            with _log(name).open("wb") as log:
                running[name] = subprocess.Popen(
                    [sys.executable, "-m", "pytest", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        _wait(running)
    finally:
        for process in running.values():
            if process.poll() is None:
                process.terminate()
                process.wait()
    for name in running:
        print(f"\n---- {name}: {' '.join(PARTS[name])}\n{_log(name).read_text(errors='replace')}")
    return int(any(process.returncode for process in running.values()))


def _wait(running: dict[str, subprocess.Popen[bytes]]) -> None:
    began = said = time.monotonic()
    while any(process.poll() is None for process in running.values()):
        time.sleep(0.5)
        if time.monotonic() - said > _EVERY:
            said = time.monotonic()
            lines = [f"{name} {_share(name)}" for name in running]
            print(f"{(said - began) / 60:.0f} min: {', '.join(lines)}", flush=True)


def _share(name: str) -> str:
    """How far it is, in pytest's words: "[ 34%]"."""
    lines = _log(name).read_text(errors="replace").splitlines()
    return next((line[-6:] for line in reversed(lines) if line.endswith("%]")), "[  0%]")


def _log(name: str) -> Path:
    return BUILD / f"test-{name}.log"


if __name__ == "__main__":
    sys.exit(main())
