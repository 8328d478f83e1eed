"""Cells run in a session's kernels, for tests."""

from __future__ import annotations

import asyncio
import json
import uuid

from hub_client import Person


def run_cell(person: Person, code: str) -> None:
    """Run ``code`` in a new kernel, as a notebook would, and wait until it has finished."""
    kernel = person.session("POST", "api/kernels")
    assert kernel.status_code == 201, kernel.text

    async def send() -> None:
        socket = await person.socket(f"api/kernels/{kernel.json()['id']}/channels")
        id_ = uuid.uuid4().hex
        header = {"msg_id": id_, "msg_type": "execute_request", "session": "s", "username": ""}
        header |= {"version": "5.3", "date": "2026-01-01T00:00:00Z"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await socket.write_message(json.dumps({**message, "buffers": [], "channel": "shell"}))
        while True:
            raw = await asyncio.wait_for(socket.read_message(), 60)
            assert raw is not None
            reply = json.loads(raw)
            own = reply["parent_header"].get("msg_id") == id_
            if own and reply["msg_type"] == "execute_reply":
                assert reply["content"]["status"] == "ok", reply
                break
        socket.close()

    asyncio.run(send())
