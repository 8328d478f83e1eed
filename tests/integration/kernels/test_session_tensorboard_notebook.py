"""TensorBoard's own ``%tensorboard`` in a kernel of a session."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from session_server import BASE, PATIENCE, SessionServer, a_server, make_python, wait_for
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

pytest.importorskip("tensorboard")
pytest.importorskip("jupyter_server_proxy")

WRITE = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("logs/run")
writer.add_event(Event(summary=Summary(value=[Summary.Value(tag="loss", simple_value=1)])))
writer.close()
"""


class Kernel:
    """A kernel of the session, spoken with as JupyterLab does."""

    def __init__(self, server: SessionServer) -> None:
        self.server = server
        answer = server.client.post("api/kernels", json={})
        assert answer.status_code == 201, answer.text
        self.id = answer.json()["id"]
        self.count = 0

    async def run(self, code: str) -> str:
        """Everything that the cell displays and prints."""
        url = f"{self.server.url}{BASE}api/kernels/{self.id}/channels".replace("http", "ws", 1)
        login = {"Authorization": self.server.client.headers["Authorization"]}
        socket = await websocket_connect(HTTPRequest(url, headers=login))
        self.count += 1
        header = {"msg_id": f"m{self.count}", "msg_type": "execute_request", "session": "s"}
        header |= {"username": "ada", "version": "5.3", "date": "2026-01-01T00:00:00Z"}
        content = {"code": code, "silent": False, "store_history": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await socket.write_message(json.dumps({**message, "channel": "shell", "buffers": []}))
        shown: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while True:
                said: dict[str, Any] = json.loads(await socket.read_message() or "{}")
                if said.get("parent_header", {}).get("msg_id") != header["msg_id"]:
                    continue
                content = said["content"]
                if content.get("execution_state") == "idle":
                    break
                shown.append(content.get("text", "") or json.dumps(content.get("data", content)))
        socket.close()
        return "\n".join(shown)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("notebook") / "venv")


async def test_the_magic_keeps_working_through_the_proxy(python: Path) -> None:
    with a_server(python) as server:
        kernel = await asyncio.to_thread(Kernel, server)
        assert "Error" not in await kernel.run(WRITE)
        shown = await kernel.run("%load_ext tensorboard\n%tensorboard --logdir logs --port 6006")
        found = re.search(rf"{BASE}portal/tensorboard/([0-9]+)/", shown)
        assert found, shown
        (board,) = server.ask("GET", "api/running").json()["running"]
        assert board["number"] == int(found[1]) and board["name"] == "logs"
        assert board["origin"] == "notebook" and board["folders"] == [f"{server.home}/logs"]
        server.until(board, "ready")
        # The first request of all for it: the proxy is imported meanwhile.
        page = await asyncio.to_thread(server.get, board)
        assert "tb-relative-root" in page.text
        assert server.get(board, "data/runs").json() == ["run"]
        # The same cell again shows the same one; interrupting the kernel does not end it.
        server.client.post(f"api/kernels/{kernel.id}/interrupt")
        again = await kernel.run("%tensorboard --logdir logs --port 6006")
        assert f"portal/tensorboard/{board['number']}/" in again and "Reusing" in again
        # Outside of the person's own folders: a sentence in the cell.
        refused = await kernel.run("%tensorboard --logdir /etc")
        assert "/etc is outside the allowed TensorBoard folders" in refused
        await asyncio.to_thread(server.stop, board)
        assert server.ask("GET", "api/running").json() == {"running": []}
        again = await kernel.run("%tensorboard --logdir logs --port 6006")
        assert "Launching" in again
        wait_for(lambda: "ready" in server.ask("GET", "api/running").text)
        # Ended where it was started, it leaves the list.
        await kernel.run("from tensorboard import manager\n!kill {manager.get_all()[0].pid}")
        wait_for(lambda: "notebook" not in server.ask("GET", "api/running").text)
