"""What `make lint` says, as a part of the suite: ruff and mypy have nothing to remark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "words",
    [["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"], ["mypy"]],
    ids=["ruff-check", "ruff-format", "mypy"],
)
def test_lint(words: list[str], tmp_path: Path) -> None:
    words = [*words, f"--cache-dir={tmp_path}"] if words == ["mypy"] else [*words, "."]
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
