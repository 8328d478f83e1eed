"""Sentences of the smoke test about a kernel that does not work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from portal_session.check.hub import CheckHub
from portal_session.check.server import Failed, Kernel, Server

FAILED = Failed("It did not answer within 180 s.")


class Socket:
    """Connection of a kernel that answers what it is asked."""

    def write_message(self, text: str) -> None:
        self.asked = json.loads(text)

    async def read_message(self) -> str:
        parent, header = self.asked["header"], {"msg_type": "kernel_info_reply"}
        content = {"language_info": {"version": "1.9"}}
        return json.dumps({"header": header, "parent_header": parent, "content": content})


class Answering(Server):
    """Server whose kernels answer."""

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return {"id": "k"}

    async def connect(self, path: str) -> Any:
        return Socket()


def reason(**spec: Any) -> str:
    return Kernel(Server(CheckHub()), "kernel", spec).reason(FAILED)


@pytest.mark.parametrize("language", ["javascript", "Julia", "C++", ""])
async def test_a_silent_kernel_may_need_ports(language: str) -> None:
    said = reason(language=language, argv=["kernel"])
    assert said.startswith("It did not answer within 180 s. Kernels listen on Unix sockets")
    assert '"metadata": {"portal_ports_only": true}' in said


async def test_one_that_has_ports_or_can_do_without_is_silent_for_another_reason() -> None:
    ports = {"portal_ports_only": True}
    specs: list[dict[str, Any]] = [{"language": name} for name in ("python", "R", "bash")]
    for spec in (*specs, {"language": "javascript", "metadata": ports}, {}):
        assert reason(**spec) == str(FAILED), spec


async def test_one_that_has_answered_fails_for_another_reason() -> None:
    kernel = Kernel(Answering(CheckHub()), "kernel", {"language": "julia"})
    await kernel.start()
    assert kernel.version == "1.9" and kernel.reason(FAILED) == str(FAILED)
