"""A test that fails is run once more, alone, at the end (tests/support/suite/unstable.py), tried on
small suites of their own."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from checkout import PYTEST_INI

from tests import side_by_side
from tests.support.suite.unstable import Part

_SUPPORT = Path(__file__).parents[1] / "support/suite"
_CONFTEST = """
import os, sys
sys.path.insert(0, SUPPORT)
import outcomes, skips
pytest_addoption = outcomes.add_option
def pytest_configure(config):
    outcomes.register(config)
    skips.register(config)
"""
_GOOD = "def test_good(): pass\n"
# Fails in the run of all tests, and passes alone.
_BUSY = (
    "import sys\ndef test_busy{0}():\n"
    "    print('alone' if '-rP' in sys.argv else 'beside others')\n    assert '-rP' in sys.argv\n"
)
_BUSY_FIXTURE = (
    "import sys, pytest\n@pytest.fixture\ndef place():\n    {0}\n    {1}\n"
    "def test_busy_fixture(place): pass\n"
)
_ALONE = "assert '-rP' in sys.argv"
_BAD = "def test_bad(): assert 1 == 2, 'never'\n"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a new suite; its run writes to build/ below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(side_by_side, "BUILD", tmp_path / "build")
    monkeypatch.setattr(side_by_side.runs, "end_on_signals", lambda: None)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "pytest.ini").write_text(PYTEST_INI)
    (tests / "conftest.py").write_text(_CONFTEST.replace("SUPPORT", repr(str(_SUPPORT))))
    (tests / "expected_skips.toml").write_text("")
    return tests


def _run(
    suite: Path, capsys: pytest.CaptureFixture[str], *more: str, again: bool = True, **files: str
) -> tuple[int, str]:
    """Run a suite of these files (test_NAME.py) as the only part; return status and output."""
    for name, text in files.items():
        (suite / f"test_{name}.py").write_text(text)
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    outcome = suite.parent / "build/test-all.json"
    command = [*pytest_command, f"--outcome={outcome}", "tests", *more]
    part = Part(command, outcome, again=[*pytest_command, "-rP"] if again else [])
    status = side_by_side.run([{"all": part}])
    return status, capsys.readouterr().out


def _closing(output: str) -> str:
    line = output.splitlines()[-1]
    assert re.fullmatch(r"=+ .* in [0-9.]+s =+", line), line
    return re.sub(r" in .*", "", line).strip("= ")


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_test_that_passes_alone_does_not_fail_the_run(
    suite: Path, capsys: pytest.CaptureFixture[str], workers: tuple[str, ...]
) -> None:
    status, output = _run(suite, capsys, *workers, good=_GOOD, busy=_BUSY.format(""))
    assert status == 0 and _closing(output) == "2 passed"
    both = output.partition("---- UNSTABLE: tests/test_busy.py::test_busy")[2]
    assert "beside others" in both.partition("-- alone:")[0]
    assert "\nalone\n" in both.partition("-- alone:")[2]
    assert "\nUNSTABLE tests/test_busy.py::test_busy\n" in both
    kept = json.loads((suite.parent / "build/unstable-test.json").read_text())
    assert [run["tests"] for run in kept] == [["tests/test_busy.py::test_busy"]]


def test_a_fixture_that_fails_only_beside_others(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = _BUSY_FIXTURE.format(_ALONE, "yield"), _BUSY_FIXTURE.format("yield", _ALONE)
    status, output = _run(suite, capsys, good=_GOOD, before=before, after=after)
    assert status == 0 and _closing(output) == "3 passed"


def test_a_test_that_fails_twice_fails_the_run(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output = _run(suite, capsys, good=_GOOD, bad=_BAD, busy=_BUSY.format(""))
    assert status == 1 and _closing(output) == "1 failed, 2 passed"
    assert "\nFAILED tests/test_bad.py::test_bad\n" in output
    assert "FAILED tests/test_busy.py::test_busy\n" not in output


def test_unstable_twice_in_a_row_is_said(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (False, True):
        _, output = _run(suite, capsys, busy=_BUSY.format(""))
        assert ("in the run before, too" in output) == words
    _run(suite, capsys, busy=_GOOD)
    _, output = _run(suite, capsys, busy=_BUSY.format(""))
    assert "in the run before, too" not in output


def test_many_failures_are_no_instability(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, output = _run(suite, capsys, busy="\n".join(map(_BUSY.format, range(21))))
    assert status == 1 and _closing(output) == "21 failed"
    assert "21 tests failed, more than 20: none is run once more." in output


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("import missing_module", (), "all: its process ended with status 2"),
        ("import os\ndef test_ends(): os._exit(7)", (), "all: its process ended with status 7"),
        # A process of pytest-xdist dies.
        ("import os\ndef test_ends(): os._exit(7)", ("-n", "1"), "tests/test_it.py::test_ends"),
        ("import pytest\ndef test_no(): pytest.skip('x')", (), "tests/test_it.py::test_no"),
        (_GOOD, ("--no-such-option",), "all: its process ended with status 4"),
        (_GOOD, ("-k", "nothing"), "all: its process ended with status 5"),
    ],
)
def test_what_is_never_run_again(
    suite: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    more: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.setenv("PORTAL_REQUIRE_ALL", "1")
    status, output = _run(suite, capsys, *more, it=text)
    assert status == 1 and f"\nFAILED {words}" in output
    assert "once more" not in output


def test_a_skip_is_no_pass(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skips = (
        "import sys, pytest\ndef test_it():\n"
        "    if '-rP' in sys.argv: pytest.skip('busy')\n    assert 0\n"
    )
    status, output = _run(suite, capsys, it=skips)
    assert status == 1 and _closing(output) == "1 failed"


def test_a_part_that_does_not_depend_on_the_machine(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output = _run(suite, capsys, again=False, busy=_BUSY.format(""))
    assert status == 1 and _closing(output) == "1 failed" and "once more" not in output
    assert not side_by_side.FIRST["lint"].again


def test_each_part_of_the_suite_writes_its_outcome() -> None:
    for stage in (stage for suite in side_by_side.SUITES.values() for stage in suite):
        for name, part in stage.items():
            assert f"--outcome={part.outcome}" in part.command and name in part.outcome.name
    assert shutil.which(side_by_side.PARTS["hub"].command[0])
