"""A kernel in a job, as far as no process is needed: how it is interrupted, and what is left out
of its output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from machine import patience
from portal_session.job_kernels.job import running_kernel
from portal_session.job_kernels.job.running_kernel import RunningKernel
from portal_session.job_kernels.wire.link import Link, unpack
from portal_session.job_kernels.wire.messages import DELIMITER, Signed

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


class Broadcast:
    """The kernel's broadcast: these messages, then nothing."""

    def __init__(self, *messages: list[bytes]) -> None:
        self._messages = list(messages)

    async def recv_multipart(self) -> list[bytes]:
        if not self._messages:
            raise asyncio.CancelledError
        return self._messages.pop(0)

    def close(self, linger: int) -> None: ...


async def test_what_is_left_out_without_a_session_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running_kernel, "FULL", 300)
    link, signed = Link(lambda _: None), Signed("key")
    process: Any = None
    kernel = RunningKernel(process, "key", link, lambda *_: None)
    cell = {"msg_id": "7"}
    printed = [
        signed.broadcast("stream", {"name": "stdout", "text": f"{n}\n"}, cell) for n in range(5)
    ]
    idle = signed.broadcast("status", {"execution_state": "idle"}, cell)
    with pytest.raises(asyncio.CancelledError):
        await kernel._pump(Broadcast(*printed, idle, printed[0], idle))
    sent = [unpack(message, 1) for _, message in link._unsent]
    assert [frames[0] for frames in sent] == [b"stream", b"stream", b"status", b"stream", b"status"]
    for note, count in ((sent[1], 4), (sent[3], 1)):
        parent, _, content = (json.loads(part) for part in note[note.index(DELIMITER) + 3 :][:3])
        assert parent == cell and content["name"] == "stderr"
        assert f"\n{count} pieces of output are missing here: the session" in content["text"]
