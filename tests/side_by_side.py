"""``make test`` without ARGS: the whole suite, in stages.

First the tests that start no process (tests/unit, as `make unit`) and, in parallel, a demo from
which all others begin. Then all other parts, a few at a time, the longest first: the tests that
wait for Slurm and for browsers, the others, ruff and mypy, the demo's frameworks, and Slurm and the
Hub on newer versions of Slurm. More at a time would only wait for the processor, and time out. Each
process has a demo of its own; slow builds are shared (PORTAL_CACHE). Output goes to
build/test-*.log, and to the terminal when a part is done; the slowest tests of all parts are listed
at the end. A signal ends the parts first.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from tests import live_slurm
from tests.support.suite import runs

BUILD = Path(__file__).resolve().parents[1] / "build"
_PREPARED = "tests/integration/demo/test_demo_prepared.py"
_SHOWCASE = "tests/integration/demo/test_showcase.py"  # five minutes, most of them of waiting
_OUTSIDE = [
    *("tests/unit", "tests/hub", "tests/browser", "tests/project/test_lint.py"),
    *(_PREPARED, _SHOWCASE),
]
# Half of their time is waiting, so each has two processes, with a demo each.
_TWICE = ["-n", "2", "--dist", "loadfile"]
_SLOWEST = 20


def _pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", f"--durations={_SLOWEST}", *arguments]


FIRST = {"unit": _pytest("tests/unit", "-n", "2"), "prepared": _pytest(_PREPARED)}
_LIVE_LIMIT = 1800  # seconds, with the making of a root
LIVE = {
    f"slurm-{name}": ["timeout", str(_LIVE_LIMIT), sys.executable, "-m", "tests.live_slurm", name]
    for name in live_slurm.SUITES
}
PARTS = {
    "hub": _pytest("tests/hub", *_TWICE),
    "rest": _pytest("tests", *(f"--ignore={path}" for path in _OUTSIDE), *_TWICE),
    "browser": _pytest("tests/browser", *_TWICE),
    "lint": _pytest("tests/project/test_lint.py"),
    "showcase": _pytest(_SHOWCASE),
    **LIVE,
}
STAGES = (FIRST, PARTS)
_AT_A_TIME = 3  # parts
_EVERY = 60.0  # seconds between two lines of progress
_DURATION = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(\S.*)$", re.MULTILINE)


def main() -> int:
    """Return 1 if a part has failed, else 0."""
    BUILD.mkdir(exist_ok=True)
    runs.end_on_signals()
    started = time.monotonic()
    failed = 0
    for stage in STAGES:
        failed |= _run(stage)
        print(f"after {time.monotonic() - started:.0f} s: {', '.join(stage)}", flush=True)
    _print_slowest([name for stage in STAGES for name in stage])
    return failed


def _run(parts: dict[str, list[str]]) -> int:
    """Run the commands, some at a time, in their order; return 1 if a command has failed."""
    began = reported = time.monotonic()
    waiting, running, failed = list(parts), dict[str, subprocess.Popen[bytes]](), 0
    try:
        while waiting or running:
            while waiting and len(running) < _AT_A_TIME:
                name = waiting.pop(0)
                running[name] = _started(name, parts[name])
            time.sleep(0.5)
            for name in [name for name in running if running[name].poll() is not None]:
                failed |= bool(running.pop(name).returncode)
                text = _log(name).read_text(errors="replace")
                print(f"\n---- {name}: {' '.join(parts[name])}\n{text}")
                print(f"{name}: ended after {time.monotonic() - began:.0f} s", flush=True)
            if time.monotonic() - reported > _EVERY:
                reported = time.monotonic()
                shares = [f"{name} {_share(name)}" for name in running]
                print(f"{(reported - began) / 60:.0f} min: {', '.join(shares)}", flush=True)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return int(failed)


def _started(name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with _log(name).open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches it through this process alone
            preexec_fn=runs.ends_with_parent,
        )


def _share(name: str) -> str:
    """Return the progress of a part as printed by pytest: "[ 34%]"."""
    lines = _log(name).read_text(errors="replace").splitlines()
    return next((line[-6:] for line in reversed(lines) if line.endswith("%]")), "[  0%]")


def _print_slowest(parts: list[str]) -> None:
    """Print the slowest tests of all parts (pytest's --durations), each with its seconds."""
    text = "\n".join(_log(name).read_text(errors="replace") for name in parts)
    rows = sorted(((float(row[1]), row[2]) for row in _DURATION.finditer(text)), reverse=True)
    print(f"\n---- the {_SLOWEST} slowest")
    for seconds, test in rows[:_SLOWEST]:
        print(f"{seconds:8.1f} s  {test}")


def _log(name: str) -> Path:
    return BUILD / f"test-{name}.log"


if __name__ == "__main__":
    sys.exit(main())
