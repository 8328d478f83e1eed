"""Work goes on without a browser: a real Jupyter server, a real kernel, pages that go away."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hub_client import wait_until
from machine_clock import awake
from portal_session.notebooks.cell_outputs import LARGEST, CellOutputs
from portal_session.notebooks.executions import Execution, asked_execution
from portal_session.notebooks.unattended import Unattended
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from portal.demo.daemons.ports import free_port

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
TOKEN = "unattended"
V1 = "v1.kernel.websocket.jupyter.org"


class Server:
    """A Jupyter server with the extension alone, on a directory of its own."""

    def __init__(self, home: Path) -> None:
        self.kernels: set[str] = set()
        self.root = home / "work"
        self.root.mkdir()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUPYTER", "PORTAL"))
        }
        environment |= {"HOME": str(home), "PYTHONPATH": str(KERNELS)}
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"]
        command += [f"--port={port}", f"--ServerApp.root_dir={self.root}"]
        command += [f"--IdentityProvider.token={TOKEN}", "--ServerApp.ip=127.0.0.1"]
        command += ["--ServerApp.jpserver_extensions={'portal_session.notebooks.unattended': True}"]
        self.log = home / "log"
        self.process = subprocess.Popen(
            command, env=environment, cwd=home, stdout=self.log.open("w"), stderr=subprocess.STDOUT
        )
        self.client = httpx.Client(
            base_url=self.url, headers={"Authorization": f"token {TOKEN}"}, timeout=120
        )
        wait_until("the Jupyter server", self._up, timeout=120)

    def _up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.client.get("/api/status").status_code == 200
        except httpx.TransportError:
            return False

    def end(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def notebook(self, *sources: str, **more: Any) -> Notebook:
        return Notebook(self, sources, **more)


class Notebook:
    """A notebook on disk with a kernel, as JupyterLab has it open."""

    def __init__(self, server: Server, sources: tuple[str, ...], minor: int = 5) -> None:
        self.server, self.name = server, f"{uuid.uuid4().hex}.ipynb"
        self.cells = [
            {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
            | {"execution_count": None}
            | ({"id": f"cell-{at}"} if minor >= 5 else {})
            for at, source in enumerate(sources)
        ]
        self.minor = minor
        self.save()
        made = server.client.post(
            "/api/sessions",
            json={"path": self.name, "name": "", "type": "notebook", "kernel": {"name": "python3"}},
        )
        assert made.status_code == 201, made.text
        self.kernel = made.json()["kernel"]["id"]
        server.kernels.add(self.kernel)

    def save(self) -> None:
        content = {"cells": self.cells, "metadata": {}}
        content |= {"nbformat": 4, "nbformat_minor": self.minor}
        answer = self.server.client.put(
            f"/api/contents/{self.name}", json={"type": "notebook", "content": content}
        )
        assert answer.status_code in (200, 201), answer.text

    def on_disk(self) -> list[dict[str, Any]]:
        # jupyter_server keeps a copy while it writes the file anew, which is empty for a moment.
        file = self.server.root / self.name
        return json.loads(wait_until("a whole file", file.read_text))["cells"]

    def printed(self, cell: int = 0) -> str:
        outputs = self.on_disk()[cell]["outputs"]
        return "".join("".join(one.get("text", [])) for one in outputs)

    def missed(self, client: str) -> list[dict[str, Any]]:
        answer = self.server.client.post(
            "/portal/missed-outputs", json={"kernel": self.kernel, "client": client}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["executions"]

    @asynccontextmanager
    async def page(self, client: str = "", protocol: str = "") -> AsyncIterator[Page]:
        name = client or uuid.uuid4().hex
        url = f"{self.server.url}/api/kernels/{self.kernel}/channels?session_id={name}"
        request = HTTPRequest(
            url.replace("http", "ws", 1), headers={"Authorization": f"token {TOKEN}"}
        )
        connection = await websocket_connect(request, subprotocols=[protocol] if protocol else None)
        page = Page(connection, name)
        try:
            yield page
        finally:
            if not page.gone:
                connection.close(1001)

    async def until(self, text: str, cell: int = 0) -> None:
        for _ in range(1200):
            if len(self.on_disk()) > cell and text in self.printed(cell):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(
            f"{text!r} is not in {self.on_disk()}\n{self.server.log.read_text()[-3000:]}"
        )


class Page:
    """What a browser's page says to a kernel."""

    def __init__(self, connection: WebSocketClientConnection, name: str) -> None:
        self.connection, self.name, self.gone = connection, name, False
        self.shown = ""

    async def run(self, code: str, cell: str = "cell-0", *, until: str | None = None) -> str:
        """Send one cell; with ``until``, wait for this text in what it prints."""
        id_ = uuid.uuid4().hex
        header = {"msg_id": id_, "msg_type": "execute_request", "session": self.name}
        header |= {"username": "", "version": "5.3", "date": "2026-01-01T00:00:00Z"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {"cellId": cell}}
        message |= {"content": content, "buffers": [], "channel": "shell"}
        await self.connection.write_message(json.dumps(message))
        if until is not None:
            await self.sees(id_, until)
        return id_

    async def sees(self, id_: str, text: str) -> None:
        while text not in self.shown:
            raw = await asyncio.wait_for(self.connection.read_message(), 120)
            assert raw is not None, "the connection was closed"
            message = json.loads(raw)
            if message["parent_header"].get("msg_id") == id_ and message["msg_type"] == "stream":
                self.shown += message["content"]["text"]

    def close(self) -> None:
        """As a browser does it when its tab is closed."""
        self.gone = True
        self.connection.close(1001)

    def break_off(self) -> None:
        """As it looks when the network breaks: the connection ends without a word."""
        self.gone = True
        self.connection.stream.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("unattended"))
    yield started
    started.end()


@pytest.fixture(autouse=True)
def no_kernels_left(server: Server) -> Iterator[None]:
    yield
    while server.kernels:
        server.client.delete(f"/api/kernels/{server.kernels.pop()}")


SLOW = "import time\nfor at in range(8):\n    print('line', at, flush=True); time.sleep(0.15)\n"


def held_at_line_1(server: Server) -> tuple[Path, str]:
    """SLOW that goes on after its line 1 once the file is there; the file, and the code."""
    go = server.root / "go-on"
    hold = f"    while at == 1 and not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
    return go, f"import os\n{SLOW}{hold}"


async def test_the_output_of_a_closed_page_is_on_disk(server: Server) -> None:
    notebook = server.notebook(SLOW)
    async with notebook.page() as page:
        await page.run(SLOW, until="line 1")
        page.close()
        await notebook.until("line 7")
    assert notebook.printed() == "".join(f"line {at}\n" for at in range(8))
    assert notebook.on_disk()[0]["execution_count"] == 1


async def test_every_kind_of_output_is_kept(server: Server) -> None:
    code = (
        "import time; time.sleep(0.5)\n"
        "from IPython.display import display, HTML\n"
        "shown = display(HTML('<b>first</b>'), display_id=True)\n"
        "for at in range(3): print(f'\\r{at}0 %', end='')\n"
        "shown.update(HTML('<b>second</b>'))\n"
        "1 / 0"
    )
    notebook = server.notebook(code, "print('queued')")
    async with notebook.page() as page:
        await page.run(code)
        await page.run("print('never run')", "cell-1")
        page.close()
        for _ in range(1200):
            if len(notebook.on_disk()[0]["outputs"]) == 3:
                break
            await asyncio.sleep(0.1)
    html, text, error = notebook.on_disk()[0]["outputs"]
    assert "".join(html["data"]["text/html"]) == "<b>second</b>"
    assert "".join(text["text"]) == "20 %"
    assert (error["output_type"], error["ename"]) == ("error", "ZeroDivisionError")
    # The kernel gave up the cell behind the error, as it does for any page.
    assert notebook.on_disk()[1]["outputs"] == []


async def test_cells_that_wait_behind_it_are_kept_too(server: Server) -> None:
    notebook = server.notebook("1", "2")
    async with notebook.page() as page:
        await page.run(SLOW)
        await page.run("print('second')", "cell-1")
        page.close()
        await notebook.until("second", 1)
    assert "line 7" in notebook.printed(0)
    assert "".join(notebook.on_disk()[0]["source"]) == SLOW  # what was run, not what was saved


async def test_a_later_edit_is_not_overwritten(server: Server) -> None:
    go, code = held_at_line_1(server)
    notebook = server.notebook(code, "keep me")
    async with notebook.page() as page:
        await page.run(code, until="line 0")
        await page.run("print('gone')", "cell-9")
        notebook.cells[0]["source"] = "edited"
        notebook.cells[1]["source"] = "kept"
        notebook.save()
        go.touch()
        page.close()
        await notebook.until("line 7")
    sources = ["".join(cell["source"]) for cell in notebook.on_disk()]
    # The source is the saved one; a cell that was no longer there when it was saved stays away.
    assert sources == ["edited", "kept"]


async def test_a_cell_that_was_never_saved_is_added(server: Server) -> None:
    notebook = server.notebook("old")
    async with notebook.page() as page:
        await page.run(SLOW, "new-cell", until="line 0")
        page.close()
        await notebook.until("line 7", cell=1)
    old, new = notebook.on_disk()
    assert old["outputs"] == []
    assert (new["id"], "".join(new["source"])) == ("new-cell", SLOW)


async def test_a_notebook_without_cell_ids(server: Server) -> None:
    notebook = server.notebook(SLOW, "other", minor=4)
    async with notebook.page() as page:
        await page.run(SLOW, "an-id-of-the-browser-only", until="line 0")
        page.close()
        await notebook.until("line 7")
    assert len(notebook.on_disk()) == 2


async def test_output_that_its_page_had_no_time_to_save(server: Server) -> None:
    notebook = server.notebook("print('quick')")
    async with notebook.page() as page:
        await page.run("print('quick')", until="quick")
        page.close()
        await notebook.until("quick")


async def test_what_its_page_saved_is_left_alone(server: Server) -> None:
    notebook = server.notebook("print('quick')")
    async with notebook.page() as page:
        await page.run("print('quick')", until="quick")
        await asyncio.sleep(0.3)
        notebook.cells[0]["outputs"] = []  # cleared by the person
        notebook.save()
        page.close()
    async with notebook.page() as other:
        await other.run(SLOW, "cell-1", until="line 1")
        other.close()
    await notebook.until("line 7", cell=1)
    assert notebook.on_disk()[0]["outputs"] == []


async def test_a_broken_connection_waits_for_its_page(server: Server) -> None:
    notebook = server.notebook(SLOW)
    before = (server.root / notebook.name).stat().st_mtime_ns
    async with notebook.page("same") as page:
        id_ = await page.run(SLOW, until="line 1")
        page.break_off()
        async with notebook.page("same") as again:
            # The server kept the messages for it, and the file did not change below it.
            await again.sees(id_, "line 7")
            assert (server.root / notebook.name).stat().st_mtime_ns == before
            (missed,) = notebook.missed("same")
    text = "".join(one["text"] for one in missed["outputs"])
    assert text == "".join(f"line {at}\n" for at in range(8))


async def test_whoever_opens_the_notebook_has_all_of_it(server: Server) -> None:
    notebook = server.notebook(SLOW)
    async with notebook.page() as page:
        await page.run(SLOW, until="line 7")
        page.break_off()
    # Its page may come back, so nothing is written yet; but now somebody reads.
    wait_until(
        "the broken connection is noticed",
        lambda: server.client.get(f"/api/kernels/{notebook.kernel}").json()["connections"] == 0,
    )
    assert notebook.printed() == ""
    answer = server.client.get(f"/api/contents/{notebook.name}?content=1").json()
    assert "line 7" in "".join(
        "".join(one["text"]) for one in answer["content"]["cells"][0]["outputs"]
    )


async def test_a_page_that_comes_in_the_middle_takes_over(server: Server) -> None:
    go, code = held_at_line_1(server)
    notebook = server.notebook(code)
    async with notebook.page("first") as page:
        id_ = await page.run(code, until="line 1")
        page.close()
        async with notebook.page("second") as second:
            (running,) = notebook.missed("second")
            assert (running["id"], running["cell"]) == (id_, "cell-0")
            assert running["running"] is True
            assert notebook.missed("a stranger") == []
            go.touch()
            await second.sees(id_, "line 7")
            before = (server.root / notebook.name).stat().st_mtime_ns
            for _ in range(300):
                (ended,) = notebook.missed("second")
                if not ended["running"]:
                    break
                await asyncio.sleep(0.1)
            assert ended["execution_count"] == 1
            assert "line 0" in ended["outputs"][0]["text"]
            assert "line 7" in ended["outputs"][0]["text"]
            assert notebook.missed("second") == []  # it has all of it
            assert (server.root / notebook.name).stat().st_mtime_ns == before
            second.close()
        await notebook.until("line 7")  # it went before it had saved


async def test_a_kernel_that_dies_says_so(server: Server) -> None:
    go = server.root / "die"
    code = (
        "import os, time; print('first', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
        "os._exit(1)"
    )
    notebook = server.notebook(code)
    async with notebook.page() as page:
        await page.run(code, until="first")
        page.close()
        await asyncio.to_thread(
            wait_until,
            "its page is gone",
            lambda: server.client.get(f"/api/kernels/{notebook.kernel}").json()["connections"] == 0,
        )
        go.touch()
        await notebook.until("The kernel ended while this cell ran")
    assert "first" in notebook.printed()


async def test_what_ends_while_it_is_written_is_written_again() -> None:
    one = Execution("1", "page", "cell-0", "code", time.time())
    one.outputs.take("stream", {"name": "stdout", "text": "first"})
    one.left_at = float("-inf")
    follower = SimpleNamespace(executions={"1": one}, clients=set())
    app = SimpleNamespace(
        kernel_manager={"kernel": None},
        contents_manager=SimpleNamespace(get=None),
        log=logging.getLogger("test"),
    )
    unattended, written = Unattended(app), list[str]()
    unattended._followers["kernel"] = follower  # type: ignore[assignment]

    async def write(kernel_id: str, executions: list[Execution]) -> bool:
        changes = one.outputs.changes
        written.append(str(one.result().outputs))
        if len(written) == 1:  # the kernel dies while the disk is busy
            one.outputs.take("stream", {"name": "stderr", "text": "died"})
            one.ended = time.time()
        one.saved = changes
        return True

    unattended._write = write  # type: ignore[method-assign]
    await unattended._save_kernel("kernel")
    assert one.left_at is not None, "it is not on disk yet"
    await unattended._save_kernel("kernel")
    assert len(written) == 2 and "died" in written[-1] and one.left_at is None


async def test_the_end_of_the_session_writes_all(tmp_path: Path) -> None:
    server = Server(tmp_path)
    notebook = server.notebook(SLOW)
    async with notebook.page() as page, notebook.page() as other:
        await other.run("print('of an open page')", "cell-7", until="page")
        await page.run(SLOW, until="line 2")
        page.break_off()
        started = awake()
        server.end()
        assert awake() - started < 15
    assert "line 2" in notebook.printed(0)
    assert "of an open page" in notebook.printed(1)


async def test_without_a_notebook_nothing_happens(server: Server) -> None:
    made = server.client.post("/api/kernels", json={"name": "python3"}).json()
    notebook = server.notebook("1")
    notebook.kernel = made["id"]
    async with notebook.page() as page:
        await page.run("print('in a console')", until="console")
        page.close()
    other = server.notebook(SLOW)
    async with other.page() as page:
        await page.run(SLOW, until="line 0")
        page.close()
        await other.until("line 7")
    assert notebook.printed() == ""


def test_the_route_asks_for_names(server: Server) -> None:
    assert server.client.post("/portal/missed-outputs", json={"kernel": 5}).status_code == 400
    for no_object in ([5], 5, "x"):
        assert server.client.post("/portal/missed-outputs", json=no_object).status_code == 400
    unknown = {"kernel": "none", "client": "none"}
    assert server.client.post("/portal/missed-outputs", json=unknown).json() == {"executions": []}
    with httpx.Client(base_url=server.url, timeout=120) as stranger:
        assert stranger.post("/portal/missed-outputs", json=unknown).status_code == 403


# -- pure -----------------------------------------------------------------------------------------


def stream(outputs: CellOutputs, *texts: str, name: str = "stdout") -> None:
    for text in texts:
        outputs.take("stream", {"name": name, "text": text})


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["a\n", "b\n"], "a\nb\n"),
        (["10 %", "\r20 %", "\r", "30 %\ndone"], "30 %\ndone"),
        (["longer\rab"], "abnger"),
        (["ab\bc"], "ac"),
        (["\b\ba"], "a"),
        (["a\n\bb"], "a\nb"),
    ],
)
def test_control_characters(texts: list[str], shown: str) -> None:
    outputs = CellOutputs()
    stream(outputs, *texts)
    assert outputs.as_json() == [{"output_type": "stream", "name": "stdout", "text": shown}]


def test_streams_are_apart_and_clear_waits() -> None:
    outputs = CellOutputs()
    stream(outputs, "out")
    stream(outputs, "err", name="stderr")
    assert [one["name"] for one in outputs.as_json()] == ["stdout", "stderr"]
    outputs.take("clear_output", {"wait": True})
    assert len(outputs.as_json()) == 2
    stream(outputs, "new")
    assert [one["text"] for one in outputs.as_json()] == ["new"]
    outputs.take("clear_output", {"wait": False})
    assert outputs.as_json() == []


def test_too_much_is_said_and_the_error_is_kept() -> None:
    outputs = CellOutputs()
    for _ in range(20):
        stream(outputs, "x" * (LARGEST // 10) + "\n")
    outputs.take("error", {"ename": "E", "evalue": "e", "traceback": []})
    kinds = [one["output_type"] for one in outputs.as_json()]
    assert kinds == ["stream", "stream", "error"]
    assert "was dropped" in outputs.as_json()[1]["text"]
    assert outputs.size < 1.2 * LARGEST


def test_a_progress_bar_of_hours_stays_small() -> None:
    outputs = CellOutputs()
    for at in range(50_000):
        stream(outputs, f"\r{at:6} of 50000", name="stderr")
    assert outputs.size < 100


def test_messages_of_both_protocols() -> None:
    header = {"msg_id": "1", "msg_type": "execute_request", "session": "s"}
    parts = [header, {}, {"cellId": "c"}, {"code": "x", "silent": False}]
    raw = [json.dumps(part).encode() for part in parts]
    names = ("header", "parent_header", "metadata", "content")
    text = json.dumps(dict(zip(names, parts, strict=True)))
    chunks = [b"shell", *raw]
    offsets = [8 * (len(chunks) + 2)]
    for chunk in chunks:
        offsets.append(offsets[-1] + len(chunk))
    head = [len(offsets), *offsets]
    binary = b"".join(n.to_bytes(8, "little") for n in head) + b"".join(chunks)
    for message, protocol in ((binary, V1), (text, None)):
        found = asked_execution(message, protocol)
        assert found is not None
        assert (found.id, found.client, found.cell, found.code) == ("1", "s", "c", "x")
    assert asked_execution(text.replace("cellId", "other"), None) is None
    assert asked_execution(text.replace("execute_request", "complete_request"), None) is None
