"""Run as job passes few files: traced in a process of its own, since what other tests have done in
a process (caches, patches, singletons) changes the files that are executed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TRACED = Path(__file__).with_name("files_of_a_run.py")


def test_the_files_of_a_run() -> None:
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TRACED)],
        cwd=TRACED.parents[2],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout
