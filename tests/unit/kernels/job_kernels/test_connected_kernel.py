"""What the job of a kernel tells its relay when a task of it fails."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.job_kernels.job import connected_kernel
from portal_session.job_kernels.job.connected_kernel import ConnectedKernel


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected", "/usr/lib/x.py"), False),
        (OSError(errno.ENOENT, "No such file or directory", "/usr/bin/python3"), True),
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected"), True),  # of a socket
    ],
)
async def test_a_container_that_is_gone_is_not_the_kernels_fault(
    monkeypatch: pytest.MonkeyPatch, error: OSError, told: bool
) -> None:
    monkeypatch.setattr(connected_kernel, "RunningKernel", lambda *_: SimpleNamespace())
    record: Any = SimpleNamespace(id="a", life=1, key="k")
    kernel = ConnectedKernel(record, SimpleNamespace(), 5.0)  # type: ignore[arg-type]
    words: list[dict[str, Any]] = []
    kernel._tell = lambda **said: words.append(said)  # type: ignore[method-assign]

    async def fails() -> None:
        raise error

    kernel._do(fails())
    await asyncio.wait_for(kernel._over.wait(), 5)
    assert [*words] == ([{"died": f"The kernel could not be started: {error}"}] if told else [])
