"""``make test`` without ARGS: the whole suite, in stages. ``make test-live`` (the argument "live"):
Slurm and the Hub on newer versions of Slurm.

First the tests that start no process (tests/unit, as `make unit`), ruff and mypy and, in parallel,
a demo from which all others begin. Then all other parts together: the tests that wait for Slurm and
for browsers, the others, the demo's frameworks. Seven processes keep two cores busy; nine used more
of them for the same tests, and waits timed out. Each has a demo of its own; slow builds are shared
(PORTAL_CACHE). Output goes to build/test-*.log, and to the terminal when a part is done; the
slowest tests of all parts are listed at the end. A signal ends the parts first.

At the very end, tests that failed are run once more, alone: tests/support/suite/unstable.py.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import live_slurm
from tests.support.pages.looks import NO_PICTURES
from tests.support.suite import runs, unstable
from tests.support.suite.machine import slowness
from tests.support.suite.outcomes import summary
from tests.support.suite.unstable import Part

BUILD = Path(__file__).resolve().parents[1] / "build"
_PREPARED = "tests/integration/demo/test_demo_prepared.py"
_SHOWCASE = "tests/integration/demo/test_showcase.py"  # five minutes, most of them of waiting
_OUTSIDE = [
    *("tests/unit", "tests/hub", "tests/browser", "tests/project/test_lint.py"),
    *(_PREPARED, _SHOWCASE),
]
# Half of their time is waiting, so each has two processes, with a demo each. One that dies is not
# replaced: its successor would run the same test again.
_TWICE = ["-n", "2", "--dist", "loadfile", "--max-worker-restart=0"]
_SLOWEST = 20


def _pytest(name: str, *arguments: str) -> Part:
    pytest = [sys.executable, "-m", "pytest"]
    command = [*pytest, f"--durations={_SLOWEST}", f"--outcome={_outcome(name)}", *arguments]
    return Part(command, _outcome(name), again=[*pytest, "-rP"])


def _live(name: str) -> Part:
    part = f"slurm-{name}"
    start = [sys.executable, "-m", "tests.live_slurm", name]
    command = ["timeout", str(_LIVE_LIMIT), *start, f"--outcome={_outcome(part)}"]
    return Part(command, _outcome(part), again=start, ids=["--", "-rP"])


def _outcome(name: str) -> Path:
    return BUILD / f"test-{name}.json"


FIRST = {
    "unit": _pytest("unit", "tests/unit", "-n", "4"),
    "prepared": _pytest("prepared", _PREPARED),
    "lint": dataclasses.replace(_pytest("lint", "tests/project/test_lint.py"), again=[]),
}
_LIVE_LIMIT = 1800  # seconds, with the making of a root
PARTS = {
    "hub": _pytest("hub", "tests/hub", *_TWICE),
    # In the order of their names: in that of their numbers of tests, as is usual, the files
    # with one long wait come last, when nothing else uses the cores.
    "rest": _pytest(
        *("rest", "tests", *(f"--ignore={path}" for path in _OUTSIDE)),
        *(*_TWICE, "--no-loadscope-reorder"),
    ),
    "browser": _pytest("browser", "tests/browser", *_TWICE),
    "showcase": _pytest("showcase", _SHOWCASE),
}
LIVE = {f"slurm-{name}": _live(name) for name in live_slurm.SUITES}
STAGES = (FIRST, PARTS)
SUITES = {"test": STAGES, "live": (LIVE,)}
_AT_A_TIME = 4  # parts
_EVERY = 60.0  # seconds between two lines of progress
_DURATION = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(\S.*)$", re.MULTILINE)


def main() -> int:
    """Return 1 if a part has failed, else 0."""
    suite = sys.argv[1] if len(sys.argv) > 1 else "test"
    return run(SUITES[suite], history=f"unstable-{suite}.json")


def run(stages: Sequence[Mapping[str, Part]], history: str = "unstable-test.json") -> int:
    """Run the parts of each stage side by side, then alone what failed; return 1 if any test or
    part has failed, else 0. ``history``: file of the unstable tests of its runs."""
    BUILD.mkdir(exist_ok=True)
    os.environ[NO_PICTURES] = "1"
    runs.end_on_signals()
    started = time.monotonic()
    machine = slowness()
    print(f"waits are {machine.time:.1f} times as long here, limits {machine.processor:.1f} times")
    statuses: dict[str, int] = {}
    for stage in stages:
        statuses |= _run({name: part.command for name, part in stage.items()})
        print(f"after {time.monotonic() - started:.0f} s: {', '.join(stage)}", flush=True)
    parts = {name: part for stage in stages for name, part in stage.items()}
    verdict = unstable.judge(parts, statuses, _run_alone)
    _print_slowest(list(parts))
    verdict.print(BUILD / history)
    print(summary(verdict.counts, time.monotonic() - started), flush=True)
    return int(verdict.red)


def _run(commands: Mapping[str, list[str]]) -> dict[str, int]:
    """Run the commands, some at a time, in their order; return each one's exit status."""
    began = reported = time.monotonic()
    waiting, running = list(commands), dict[str, subprocess.Popen[bytes]]()
    statuses: dict[str, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < _AT_A_TIME:
                name = waiting.pop(0)
                running[name] = _started(name, commands[name])
            time.sleep(0.5)
            for name in [name for name in running if running[name].poll() is not None]:
                statuses[name] = running.pop(name).returncode
                print(f"\n---- {name}: {' '.join(commands[name])}\n{_output(name)}")
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
    return statuses


def _run_alone(name: str, command: list[str]) -> str:
    """Run the command with nothing beside it; return its output."""
    process = _started(name, command)
    try:
        process.wait()
    finally:
        process.terminate()
        process.wait()
    return _output(name)


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


def _output(name: str) -> str:
    return _log(name).read_text(errors="replace")


def _share(name: str) -> str:
    """Return the progress of a part as printed by pytest: "[ 34%]"."""
    lines = _output(name).splitlines()
    return next((line[-6:] for line in reversed(lines) if line.endswith("%]")), "[  0%]")


def _print_slowest(parts: list[str]) -> None:
    """Print the slowest tests of all parts (pytest's --durations), each with its seconds."""
    text = "\n".join(map(_output, parts))
    rows = sorted(((float(row[1]), row[2]) for row in _DURATION.finditer(text)), reverse=True)
    print(f"\n---- the {_SLOWEST} slowest")
    for seconds, test in rows[:_SLOWEST]:
        print(f"{seconds:8.1f} s  {test}")


def _log(name: str) -> Path:
    return BUILD / f"test-{name}.log"


if __name__ == "__main__":
    sys.exit(main())
