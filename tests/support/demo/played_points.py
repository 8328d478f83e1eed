"""Environments of the demo whose Python is played, for runs whose points do what a test wants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def played_python(demo: Any, name: str, program: str) -> Iterator[Path]:
    """Add an environment ``name`` with ``program`` in the place of its Python, and remove it at the
    end; yield its folder, which jobs can read."""
    folder: Path = demo.home.demo / name
    python = folder / "bin" / "python3"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(program)
    python.chmod(0o755)
    file = demo.environments / f"{name}.yaml"
    file.write_text(f"name: {name}\ntitle: Points\nkind: venv\npath: {folder}\n")
    try:
        yield folder
    finally:
        file.unlink()
