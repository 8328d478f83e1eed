"""What `make lint` says, as a part of the suite: ruff and mypy have nothing to remark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import shared_cache

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "words",
    [["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"], ["mypy"]],
    ids=["ruff-check", "ruff-format", "mypy"],
)
def test_lint(words: list[str]) -> None:
    # mypy trusts what it knows of a file by its content, so a clone may take what another has left.
    cache = f"--cache-dir={shared_cache()}/mypy"
    words = [*words, cache] if words == ["mypy"] else [*words, "."]
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
