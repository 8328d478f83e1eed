"""A command of ``portal`` that runs in the test's own process."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest


def said_by(command: Any, config: Path, *words: str, status: int = 0) -> str:
    """Return what ``command`` (a class with subcommands) prints when it is run with ``words`` on
    the configuration file ``config``. Fails unless it exits with ``status``."""
    running = command.subcommands[words[0]][0]()
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        pytest.raises(SystemExit) as ended,
    ):
        running.initialize([*words[1:], f"--config={config}"])
        running.start()
    assert ended.value.code == status, said.getvalue()
    return said.getvalue()
