"""Notebook on disk that grows while its cells run."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs.execution.notebook_writer import NotebookWriter


async def test_a_write_that_is_cancelled_ends_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads on one file would leave the end of one after the other."""
    contents = iter([{"cells": ["a" * 1000]}, {"cells": []}])
    held, path = threading.Event(), tmp_path / "output.ipynb"
    begun: list[int] = []
    of_path = Path.write_text

    def slow(self: Path, text: str, **how: Any) -> int:
        begun.append(len(text))
        if len(begun) == 1:
            assert held.wait(30)
        return of_path(self, text, **how)

    monkeypatch.setattr(Path, "write_text", slow)
    writer = NotebookWriter(path, lambda: next(contents))
    first = asyncio.create_task(writer.write())
    while not begun:
        await asyncio.sleep(0.01)
    first.cancel()
    second = asyncio.create_task(writer.write())
    await asyncio.sleep(0.1)
    assert len(begun) == 1
    held.set()
    await second
    assert first.cancelled() or first.cancelling()
    assert json.loads(path.read_text()) == {"cells": []}
