"""A kernel in a job, as far as no process is needed: how it is interrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from machine import patience
from portal_session.job_kernels.job.running_kernel import RunningKernel
from portal_session.job_kernels.wire.link import Link
from portal_session.job_kernels.wire.messages import Signed

PATIENCE = patience(10.0)


class Process:
    """The kernel's process, played."""

    def __init__(self, folder: Path, by_message: bool) -> None:
        self.info = {"transport": "ipc", "ip": str(folder / "k"), "control_port": 4}
        self.interrupted_by_message = by_message
        self.signals = 0

    def interrupt(self) -> None:
        self.signals += 1


@pytest.mark.parametrize("by_message", [False, True])
async def test_a_kernel_is_interrupted_as_it_wants(tmp_path: Path, by_message: bool) -> None:
    process: Any = Process(tmp_path, by_message)
    kernel = RunningKernel(process, "key", Link(lambda _: None), lambda *_: None)
    await kernel.interrupt()
    assert process.signals == 0, "it is not there yet"
    kernel.ready = True
    control = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
    try:
        control.bind(f"ipc://{tmp_path}/k-4")
        await kernel.interrupt()
        assert process.signals == int(not by_message)
        if by_message:
            frames = await asyncio.wait_for(control.recv_multipart(), PATIENCE)
            request = Signed("key").request(frames)
            assert request is not None and request.type == "interrupt_request"
    finally:
        control.close(0)
