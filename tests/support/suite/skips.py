"""PORTAL_REQUIRE_ALL=1: a skipped test is a failure, unless tests/expected_skips.toml lists it.

    [[skip]]
    test = "tests/integration/demo/test_demo.py::test_real_gpus"  # without [parameters]: all
    reason = "no NVIDIA GPU"                         # part of the reason that the test gives
    package = "firefox-esr"                          # optional: only if this is not installed

A listed test that ran is a failure too, until its entry is removed. So is a listed test that its
file no longer has, which is detected whenever the whole file is collected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class SkipPolicy:
    """Plugin of pytest. ``expected`` maps a test id to the reason that its skip must give;
    ``listed``: all ids of the list, including tests that run here as their package is installed."""

    def __init__(self, path: Path) -> None:
        self.expected: dict[str, str] = {}
        self.listed: list[str] = []
        if path.exists():
            for entry in tomllib.loads(path.read_text()).get("skip", []):
                assert entry.get("test") and entry.get("reason"), f"{path}: {entry} is incomplete"
                self.listed.append(entry["test"])
                if not installed(entry.get("package", "")):
                    self.expected[entry["test"]] = entry["reason"]

    def reason_for(self, nodeid: str) -> str | None:
        """Return the listed reason for skipping a test; None if it is not listed."""
        return self.expected.get(nodeid) or self.expected.get(nodeid.split("[", 1)[0])

    @pytest.hookimpl(tryfirst=True)  # before -k deselects tests
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if session.testsfailed:  # a file that could not be collected has no tests to compare with
            return
        collected = {item.nodeid for item in items}
        collected |= {name.split("[", 1)[0] for name in collected}
        collected |= {name.split("::", 1)[0] for name in collected}
        whole = [(config.invocation_params.dir / arg).resolve() for arg in config.args]
        gone = []
        for name in self.listed:
            path = (config.rootpath / name.split("::", 1)[0]).resolve()
            if not any(path.is_relative_to(place) for place in whole):
                continue  # not requested, or only some of its tests (an argument with "::")
            skipped = path.exists() and name.split("::", 1)[0] not in collected  # the whole file
            if name not in collected and not skipped:
                gone.append(name)
        if gone:
            raise pytest.UsageError(
                f"tests/expected_skips.toml lists tests that do not exist: {', '.join(gone)}"
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[Any]:
        report = yield
        listed = self.reason_for(item.nodeid)
        if hasattr(report, "wasxfail"):
            return report
        if report.skipped:
            self._judge_skip(report, listed)
        elif report.when == "call" and report.passed and listed is not None:
            report.outcome = "failed"
            report.final = True  # not to be run again: see outcomes.py
            report.longrepr = "tests/expected_skips.toml lists this test, but it can run here."
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[Any]:
        report = yield
        if report.skipped:  # a whole module, as pytest.importorskip does
            self._judge_skip(report, self.reason_for(collector.nodeid))
        return report

    def _judge_skip(self, report: Any, listed: str | None) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if listed is not None and listed in reason:
            return
        report.outcome = "failed"
        report.final = True
        report.longrepr = f"{reason}\nPORTAL_REQUIRE_ALL=1, and tests/expected_skips.toml " + (
            "does not list this test." if listed is None else f"expects another reason: {listed}"
        )


def installed(package: str) -> bool:
    """Return True if this machine has the Debian package; False for ""."""
    if not package or not shutil.which("dpkg-query"):
        return False
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(command, capture_output=True, text=True).stdout == "installed"


def register(config: pytest.Config) -> None:
    """Register the policy if PORTAL_REQUIRE_ALL=1."""
    if os.environ.get("PORTAL_REQUIRE_ALL") == "1":
        config.pluginmanager.register(SkipPolicy(config.rootpath / "tests/expected_skips.toml"))
