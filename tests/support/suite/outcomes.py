"""Outcome of a run of pytest as a file: ``--outcome=PATH``, JSON, written at the end of the run.

    {"counts": {"passed": 12, "failed": 1}, "failures": [{"test": "tests/…::test_…",
     "when": "call", "text": "…", "final": false}], "collected": true}

A failure is ``final`` if running its test again would prove nothing: a forbidden skip, a process of
pytest-xdist that died. A run that was cut off writes no file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

_COUNTED = ("failed", "passed", "skipped", "xfailed", "xpassed", "error")
_PHASES = ("setup", "call", "teardown")


@dataclass(frozen=True)
class Failure:
    """Phase ``when`` of a test that failed, with all that pytest printed about it."""

    test: str
    when: str
    text: str
    final: bool


@dataclass
class Outcome:
    """Numbers of tests by pytest's words, and failures; ``collected``: all files were readable."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    collected: bool = True

    @classmethod
    def read(cls, path: Path) -> Outcome | None:
        """Return the outcome in ``path``; None if that run wrote none."""
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            return None
        failures = [Failure(**failure) for failure in content.pop("failures")]
        return cls(**content, failures=failures)

    def write(self, path: Path) -> None:
        """Replace the file ``path``, as a whole."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(path)

    def passes_again(self, test: str) -> None:
        """Count ``test``, which has failed, as passed."""
        own = [failure for failure in self.failures if failure.test == test]
        self.failures = [failure for failure in self.failures if failure.test != test]
        for failure in own:
            self.counts["failed" if failure.when == "call" else "error"] -= 1
        if any(failure.when != "teardown" for failure in own):
            self.counts["passed"] = self.counts.get("passed", 0) + 1


def summary(counts: dict[str, int], seconds: float) -> str:
    """Return pytest's closing line for ``counts``: "=== 1 failed, 12 passed in 3.00s ==="."""
    words = [f"{counts[word]} {word}" for word in _COUNTED if counts.get(word)]
    return f" {', '.join(words) or 'no tests ran'} in {seconds:.2f}s ".center(80, "=")


def add_option(parser: pytest.Parser) -> None:
    """Add ``--outcome`` to pytest's options."""
    parser.addoption("--outcome", metavar="PATH", help="file for the outcome of the run (JSON)")


def register(config: pytest.Config) -> None:
    """Write the outcome if it is asked for; not in the processes of pytest-xdist."""
    path = config.getoption("--outcome", None)
    if path and not hasattr(config, "workerinput"):
        Path(path).unlink(missing_ok=True)
        config.pluginmanager.register(_Writer(Path(path)))


class _Writer:
    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        stats = terminalreporter.stats
        outcome = Outcome({word: len(stats[word]) for word in _COUNTED if stats.get(word)})
        for report in (*stats.get("failed", ()), *stats.get("error", ())):
            when = getattr(report, "when", "")
            if when == "collect" or isinstance(report, pytest.CollectReport):
                outcome.collected = False
            final = when not in _PHASES or getattr(report, "final", False)
            outcome.failures.append(Failure(report.nodeid, when or "", _text(report), final))
        outcome.write(self._path)


def _text(report: Any) -> str:
    sections = (f"---- {name} ----\n{content}" for name, content in report.sections)
    return "\n".join((report.longreprtext, *sections))
