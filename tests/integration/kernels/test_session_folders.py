"""A session where an image and the node's prolog have set Jupyter's folders for somebody else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from session_server import make_python

FOLDERS = (
    *("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTERLAB_SETTINGS_DIR"),
    *("JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"),
    *("XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR"),
)
OTHERS = {"JUPYTER_NO_CONFIG": "1", "JUPYTER_PLATFORM_DIRS": "1", "JUPYTER_PORT": "8888"}


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null"])
def test_it_starts_with_its_kernels(tmp_path: Path, folder: str) -> None:
    """By the smoke test's program, which starts the session's server as a job does."""
    python = make_python(tmp_path / "venv")
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PYTHONUSERBASE": str(tmp_path / "base"),
        **dict.fromkeys(FOLDERS, folder),
        **OTHERS,
    }
    argv = [python, "-I", "-m", "portal_session.check"]
    done = subprocess.run(
        argv, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    kernels = {step["name"]: step["reason"] for step in steps if step["step"] == "kernel"}
    assert kernels.get("python3") == "", (steps, done.stderr[-2000:])
    assert f"JUPYTER_RUNTIME_DIR={folder}: this account cannot use that folder." in done.stderr
