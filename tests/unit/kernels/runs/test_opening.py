"""Files of runs that are opened in JupyterLab: only below the folder that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from portal_session.runs import RunError
from portal_session.runs.opening import below


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "runs").mkdir(parents=True)
    (home / "runs/output.ipynb").touch()
    (tmp_path / "secret").touch()
    return home


def test_a_file_of_the_home(home: Path) -> None:
    assert below(home, f"{home}/runs/output.ipynb") == "runs/output.ipynb"
    assert below(home, f"{home}/runs/../runs") == "runs"
    (home.parent / "link").symlink_to(home)
    assert below(home.parent / "link", f"{home}/runs/output.ipynb") == "runs/output.ipynb"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "The address names no file."),
        ("runs/output.ipynb", "The address names no file."),
        ("/a\0b", "The address names no file."),
        ("/" + "a" * 2000, "The address names no file."),
        ("HOME/../secret", "is not in"),
        ("HOME/out", "is not in"),
        ("/etc/passwd", "is not in"),
        ("HOME/runs/none", "does not exist: the point has not started, or the file was deleted."),
        ("HOME/runs/\x1b[31m", "does not exist"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_no_file_of_the_home(home: Path, path: str, words: str) -> None:
    (home / "out").symlink_to(home.parent / "secret")
    with pytest.raises(RunError) as caught:
        below(home, path.replace("HOME", str(home)))
    assert words in str(caught.value) and str(caught.value).isprintable()
