"""Programs run as processes of their own, with the source of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# pytest.ini of a small suite that a test runs: without the plugins that this suite leaves out.
PYTEST_INI = "[pytest]\naddopts = -p no:schemathesis -p no:anyio -p no:hypothesispytest\n"


def run(*argv: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``argv`` in the folder ``cwd`` to its end, at most two minutes; return what it said."""
    return subprocess.run(
        argv,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def portal(*words: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the command ``portal`` with ``words`` as ``run`` does."""
    return run(sys.executable, "-m", "portal", *words, cwd=cwd)
