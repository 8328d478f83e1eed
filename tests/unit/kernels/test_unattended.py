"""The patience with a page that went away is not changed by who sets the machine's clock."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.notebooks.executions import Execution
from portal_session.notebooks.kernel_follower import KernelFollower
from portal_session.notebooks.unattended import PATIENCE, Unattended
from stepping_clock import SteppingClock


@pytest.mark.parametrize("seconds", [86_400.0, 3600.0, 0.0, -3600.0, -86_400.0])
async def test_outputs_are_written_after_the_patience_and_not_before(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    execution = Execution("1", "page", "cell-0", "code", time.time())
    execution.outputs.take("stream", {"name": "stdout", "text": "first"})
    follower: Any = SimpleNamespace(executions={"1": execution}, clients={"page"})
    KernelFollower.went(follower, "page")
    assert execution.left_at is not None
    app = SimpleNamespace(
        kernel_manager={"kernel": None},
        contents_manager=SimpleNamespace(get=None),
        log=logging.getLogger("test"),
    )
    unattended, written = Unattended(app), list[str]()
    unattended._followers["kernel"] = follower

    async def write(kernel_id: str, executions: list[Execution]) -> bool:
        written.append(kernel_id)
        return True

    unattended._write = write  # type: ignore[method-assign]
    SteppingClock(monkeypatch).step(seconds)
    await unattended._save_kernel("kernel")
    assert written == []
    execution.left_at -= PATIENCE
    await unattended._save_kernel("kernel")
    assert written == ["kernel"]
