"""The rule that nothing is skipped unseen (tests/support/suite/skips.py), tried on a small suite "
"of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import PYTEST_INI

_SUITE = """
import pytest
def test_runs(): pass
def test_skipped(): pytest.skip("no GPU here")
@pytest.mark.parametrize("n", [1, 2])
def test_many(n): pytest.skip("no package for this")
"""
_ALL = (
    '[[skip]]\ntest = "tests/test_it.py::test_skipped"\nreason = "no GPU"\n'
    '[[skip]]\ntest = "tests/test_it.py::test_many"\nreason = "no package"\n'
)


def run(place: Path, listed: str, require: str = "1", *args: str) -> tuple[int, str]:
    tests = place / "tests"
    tests.mkdir()
    shutil.copy(Path(__file__).parents[1] / "support/suite/skips.py", tests)
    (place / "pytest.ini").write_text(PYTEST_INI)
    (tests / "conftest.py").write_text("import skips\npytest_configure = skips.register\n")
    (tests / "test_it.py").write_text(_SUITE)
    (tests / "expected_skips.toml").write_text(listed)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(args or ("tests",))],
        cwd=place,
        env={**os.environ, "PORTAL_REQUIRE_ALL": require},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_skips_are_fine_by_default(tmp_path: Path) -> None:
    status, words = run(tmp_path, "", require="0")
    assert status == 0 and "3 skipped" in words


def test_a_skip_that_is_not_listed_fails(tmp_path: Path) -> None:
    status, words = run(tmp_path, "")
    assert status == 1 and "3 failed, 1 passed" in words
    assert "no GPU here" in words and "does not list this test" in words


def test_listed_skips_pass(tmp_path: Path) -> None:
    status, words = run(tmp_path, _ALL)
    assert status == 0 and "1 passed, 3 skipped" in words


def test_the_reason_must_agree(tmp_path: Path) -> None:
    status, words = run(tmp_path, _ALL.replace("no GPU", "no network"))
    assert status == 1 and "1 failed" in words


@pytest.mark.parametrize(
    ("old", "new", "args"),
    [
        ("test_skipped", "test_other", ()),
        ("test_skipped", "test_other", ("tests/test_it.py", "-k", "runs")),
        ("test_it.py::test_skipped", "test_gone.py::test_skipped", ()),
    ],
)
def test_a_listed_test_that_has_gone_is_noticed(
    tmp_path: Path, old: str, new: str, args: tuple[str, ...]
) -> None:
    status, words = run(tmp_path, _ALL.replace(old, new), "1", *args)
    assert status == 4 and "lists tests that do not exist" in words and new in words


def test_a_part_of_a_file_says_nothing_about_the_rest(tmp_path: Path) -> None:
    listed = _ALL.replace("test_skipped", "test_other")
    status, words = run(tmp_path, listed, "1", "tests/test_it.py::test_runs")
    assert status == 0 and "1 passed" in words


def test_a_listed_test_that_can_run_fails(tmp_path: Path) -> None:
    listed = _ALL + '[[skip]]\ntest = "tests/test_it.py::test_runs"\nreason = "x"\n'
    status, words = run(tmp_path, listed)
    assert status == 1 and "it can run here" in words


def test_a_skip_for_want_of_a_package(tmp_path: Path) -> None:
    """It is expected where the package is absent, and not where it is installed."""
    entry = '[[skip]]\ntest = "tests/test_it.py::test_skipped"\nreason = "no GPU"\npackage = "{}"\n'
    many = _ALL[_ALL.index("[[skip]]", 1) :]
    (tmp_path / "absent").mkdir()
    status, words = run(tmp_path / "absent", many + entry.format("no-such-package"))
    assert status == 0 and "1 passed, 3 skipped" in words
    if not shutil.which("dpkg-query"):
        pytest.skip("no Debian packages on this machine")
    (tmp_path / "there").mkdir()
    status, words = run(tmp_path / "there", many + entry.format("coreutils"))
    assert status == 1 and "1 failed, 1 passed, 2 skipped" in words


def test_a_test_runs_where_its_package_is_installed(tmp_path: Path) -> None:
    if not shutil.which("dpkg-query"):
        pytest.skip("no Debian packages on this machine")
    entry = '[[skip]]\ntest = "tests/test_it.py::{}"\nreason = "x"\npackage = "coreutils"\n'
    (tmp_path / "runs").mkdir()
    status, words = run(tmp_path / "runs", _ALL + entry.format("test_runs"))
    assert status == 0 and "1 passed" in words
    (tmp_path / "gone").mkdir()
    status, words = run(tmp_path / "gone", _ALL + entry.format("test_gone"))
    assert status == 4 and "test_gone" in words
