"""TensorBoard in a session: the real program, behind a real jupyter_server."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from machine_clock import awake
from portal_session.tensorboard import record
from session_server import BASE, PATIENCE, SessionServer, a_server, make_python, wait_for
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler, websocket_connect

pytest.importorskip("tensorboard")
pytest.importorskip("jupyter_server_proxy")

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

INTRUDER = 65534  # "nobody" nearly everywhere; another account than ours


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("tensorboard") / "venv")


@pytest.fixture(scope="module")
def server(python: Path) -> Iterator[SessionServer]:
    with a_server(python) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        running: SessionServer = request.getfixturevalue("server")
        for board in running.ask("GET", "api/running").json()["running"]:
            running.stop(board)


def write_run(folder: Path, *, tag: str = "loss", steps: int = 10) -> Path:
    """A run with one curve, as a training writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(folder))
    for step in range(steps):
        value = Summary.Value(tag=tag, simple_value=1 / (step + 1))
        writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
    writer.close()
    return folder


def runs(server: SessionServer, board: dict[str, Any]) -> list[str]:
    deadline = time.monotonic() + PATIENCE
    while (answer := server.get(board, "data/runs")).status_code == 503:
        # On a busy machine one that is ready may be slow for once, and the page says so.
        assert "Try again." in answer.text and time.monotonic() < deadline, answer.text
        time.sleep(0.5)
    assert answer.status_code == 200, answer.text
    return sorted(answer.json())


def test_a_log_is_shown_below_its_path(server: SessionServer) -> None:
    folder = write_run(server.home / "first/run")
    board = server.start("first")
    assert board["name"] == "first" and board["state"] == "starting"
    assert board["url"] == f"{BASE}portal/tensorboard/{board['number']}/"
    waiting = server.get(board)
    assert "Loading" in waiting.text and "waiting.js" in waiting.text
    ready = server.until(board, "ready", "ended")
    assert ready["state"] == "ready", ready
    assert ready["folders"] == [str(folder.parent)] and ready["files"] == 1
    page = server.get(board)
    assert 'tb-relative-root" content="./"' in page.text
    assert "frame-ancestors 'self'" in page.headers["Content-Security-Policy"]
    assert runs(server, board) == ["run"]
    tags = server.get(board, "data/plugin/scalars/tags").json()
    assert list(tags["run"]) == ["loss"]
    packed = server.get(board, "index.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and len(packed.text) > 1_000_000
    # The same again is the same one.
    assert server.start("first")["number"] == board["number"]


def test_several_at_once_each_by_its_name(server: SessionServer) -> None:
    one = server.start(str(write_run(server.home / "a/logs")))
    two = server.start(str(write_run(server.home / "b/logs")))
    three = server.start("a", "b", name="both <b>&")
    names = [board["name"] for board in server.ask("GET", "api/running").json()["running"]]
    assert names == ["logs", "logs (2)", "both <b>&"]
    server.until(three, "ready")
    assert runs(server, three) == ["a/logs", "b/logs"]
    server.stop(two)
    assert server.get(two).status_code == 410
    assert server.ask("DELETE", f"api/running/{two['number']}").status_code == 404
    server.until(one, "ready")
    assert runs(server, one) == ["."]


HOSTILE = (
    "with space, comma:colon",
    "<img src=x onerror=alert(1)>",
    "50%2F..%2f #?&",
    "ünï ☃",
    "--logdir=x",
    "$(touch pwned)`id`",
    "new\nline",
)


def test_hostile_names_of_folders_are_only_names(server: SessionServer) -> None:
    names = server.home / "names"
    for name in HOSTILE:
        write_run(names / name / "x")
    board = server.start("names/--logdir=x")
    together = server.start(*(f"names/{name}" for name in HOSTILE))
    for one in (board, together):
        assert "<img" not in server.get(one).text
    server.until(board, "ready")
    assert runs(server, board) == ["x"]
    assert server.get(board, "no-page").status_code == 404
    server.until(together, "ready")
    assert runs(server, together) == sorted(f"{name}/x" for name in HOSTILE)
    assert "<img" not in server.ask("GET", "").text  # its script fills the list, as text
    found = server.ask("GET", "api/folders", params={"path": "names"}).json()["folders"]
    assert set(found) == {name for name in HOSTILE if name.isprintable()}
    assert not (server.home / "pwned").exists()


def test_a_name_with_slashes_or_markup_is_only_a_name(server: SessionServer) -> None:
    write_run(server.home / "first/run")
    board = server.start("first", name="../../x/<script>alert(1)</script>\n" + "y" * 200)
    assert board["url"] == f"{BASE}portal/tensorboard/{board['number']}/"
    assert len(board["name"]) <= 100 and "\n" not in board["name"]
    assert "<script>alert" not in server.get(board).text


def test_folders_outside_the_roots_are_refused_with_a_sentence(server: SessionServer) -> None:
    home = server.home
    (home / "out").symlink_to("/etc")
    (home / "chain").symlink_to("out")
    (home / "file").write_text("")
    for name, words in {
        "/etc": "/etc is outside the allowed TensorBoard folders",
        "../..": "is outside the allowed TensorBoard folders",
        f"{home}-other": "is outside the allowed TensorBoard folders",
        "out": "leads through a symbolic link to /etc, which is outside",
        "out/ssl": "leads through a symbolic link to /etc/ssl",
        "chain": "leads through a symbolic link to /etc",
        "missing": "There is no folder",
        "file": "is not a folder",
        "": "Choose a folder",
        "a\0b": "not a folder name",
        "x" * 5000: "not a folder name",
        7: "Choose a folder",
    }.items():
        answer = server.ask("POST", "api/running", json={"folders": [name]})
        assert answer.status_code == 400, name
        assert words in answer.json()["message"], answer.text
    answer = server.ask("POST", "api/running", content=r'{"folders": ["\ud800"]}')
    assert "not a folder name" in answer.json()["message"], answer.text
    for body in ([], {"folders": []}, {"folders": "missing"}, {"folders": ["."] * 51}):
        assert server.ask("POST", "api/running", json=body).status_code == 400
    assert server.ask("GET", "api/folders?path=/etc").status_code == 400
    assert "out" not in server.ask("GET", "api/folders").json()["folders"]
    assert server.ask("GET", "api/running").json() == {"running": []}


def test_links_inside_a_folder_are_followed_to_what_is_ones_own_only(
    server: SessionServer, tmp_path: Path
) -> None:
    logs = server.home / "links"
    write_run(logs / "real")
    write_run(server.home / "elsewhere/mine")
    write_run(tmp_path / "theirs")
    (logs / "own").symlink_to(server.home / "elsewhere")
    (logs / "foreign").symlink_to(tmp_path)
    (logs / "loop").symlink_to(".")
    board = server.start("links")
    ready = server.until(board, "ready")
    assert ready["skipped"] == [str(logs / "foreign")]
    assert runs(server, board) == ["own/mine", "real"]


def test_ten_thousand_files_and_a_corrupt_one(server: SessionServer) -> None:
    logs = server.home / "many"
    written = next(write_run(logs / "good").iterdir()).read_bytes()
    for number in range(10_000):
        folder = logs / f"{number % 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"note-{number}.txt").write_text("")
    bad = logs / "bad"
    bad.mkdir()
    (bad / "events.out.tfevents.1.corrupt").write_bytes(written[:40] + os.urandom(3000))
    (bad / "events.out.tfevents.2.empty").write_bytes(b"")
    cut = write_run(logs / "cut")
    next(cut.iterdir()).write_bytes(written[:-7])
    began = awake()
    found = server.ask("GET", "api/folders", params={"path": "many"}).json()
    assert len(found["folders"]) == 13
    assert awake() - began < 2
    board = server.start("many")
    assert server.until(board, "ready")["files"] == 4
    assert {"good", "cut"} <= set(runs(server, board))
    tags = server.get(board, "data/plugin/scalars/tags").json()
    assert list(tags["good"]) == ["loss"]


def test_a_folder_of_ten_thousand_folders_is_listed_in_part(server: SessionServer) -> None:
    for number in range(10_000):
        (server.home / f"wide/{number:05}").mkdir(parents=True)
    found = server.ask("GET", "api/folders", params={"path": "wide"}).json()
    assert found["more"] is True and found["folders"][:2] == ["00000", "00001"]
    assert len(found["folders"]) == 1000


def test_a_big_log_says_how_far_it_is(server: SessionServer) -> None:
    folder = server.home / "big/run"
    write_run(folder, steps=2000)
    (written,) = folder.iterdir()
    whole = written.read_bytes()
    written.write_bytes(whole * 50)  # 100,000 records: seconds on any machine
    board = server.start("big")
    seen = []

    def done() -> bool:
        state = server.state(board)
        seen.append((state["state"], state["read"], state["total"]))
        return state["state"] in ("ready", "ended")

    wait_for(lambda: any(one[0] == "reading" and one[1] for one in seen) or done())
    assert "progress" in server.get(board).text
    # Whoever does not want to wait sees TensorBoard itself.
    assert "tb-relative-root" in server.get(board, "?now").text
    wait_for(done)
    reading = [one for one in seen if one[0] == "reading"]
    assert reading and all(read <= total for _, read, total in reading)
    assert [read for _, read, _ in reading] == sorted(read for _, read, _ in reading)
    assert seen[-1][0] == "ready"


def test_half_of_the_jobs_memory_is_the_most() -> None:
    from portal_session.tensorboard.memory import memory_limit

    assert memory_limit({}) == 4096
    assert memory_limit({"SLURM_MEM_PER_NODE": "2000"}) == 1000
    assert memory_limit({"SLURM_MEM_PER_NODE": "0", "PORTAL_TENSORBOARD_MEMORY": "512"}) == 512
    assert memory_limit({"SLURM_MEM_PER_NODE": "99999", "PORTAL_TENSORBOARD_MEMORY": "x"}) == 4096


def test_a_sentence_says_why_one_ended(python: Path) -> None:
    with a_server(python, PORTAL_TENSORBOARD_MEMORY="64") as server:
        write_run(server.home / "logs/run")
        board = server.start("logs")
        assert (
            "MiB of memory, more than the limit of 64 MiB"
            in (server.until(board, "ended")["words"])
        )
        assert "limit of 64 MiB" in server.get(board).text
        server.stop(board)
        assert server.ask("GET", "api/running").json() == {"running": []}
        # As where TensorBoard is not installed: the import fails.
        version = "python{}.{}".format(*sys.version_info[:2])
        package = server.home / f"base/lib/{version}/site-packages/tensorboard"
        package.mkdir(parents=True)
        missing = "raise ModuleNotFoundError('no tensorboard', name='tensorboard')"
        (package / "__init__.py").write_text(missing)
        board = server.start("logs")
        assert "Run '%pip install tensorboard'" in server.until(board, "ended")["words"]
        assert "pip install tensorboard" in server.get(board).text


def test_another_user_of_the_node_cannot_reach_it(server: SessionServer) -> None:
    """For real: a process of another account tries."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    write_run(server.home / "secret/run")
    board = server.start("secret")
    state = server.until(board, "ready")
    place = server.runtime / str(board["number"])
    assert stat.S_IMODE(server.runtime.stat().st_mode) == 0o700
    assert stat.S_IMODE((place / "socket").stat().st_mode) == 0o600
    script = """
import os, socket, sys, urllib.request
runtime, place, url = sys.argv[1:]
for what in (
    lambda: os.listdir(runtime),
    lambda: os.listdir(place),
    lambda: open(place + "/about.json").read(),
    lambda: os.chmod(runtime, 0o777),
    lambda: os.rename(runtime, runtime + "-mine"),
    lambda: socket.socket(socket.AF_UNIX).connect(place + "/socket"),
):
    try:
        print("REACHED", what())
    except PermissionError:
        print("refused")
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
for path in ("", "data/runs"):
    try:
        answer = urllib.request.build_opener(Stay).open(url + path)
        print("REACHED", answer.status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
    url = server.url + board["url"]
    argv = [sys.executable, "-c", script, str(server.runtime), str(place), url]
    as_other = {"user": INTRUDER, "group": INTRUDER, "extra_groups": []}
    # The directory for temporary files is everybody's, as /tmp is.
    server.runtime.parent.chmod(0o1777)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, **as_other)
    assert done.stdout.split() == ["refused"] * 6 + ["302", "302"], done.stdout + done.stderr
    # Nothing of it listens on a port, where everybody on the node could ask.
    pids = family(server.process.pid)
    assert state["number"] == board["number"] and len(pids) >= 2
    listening = {port for pid in pids for port in listening_ports(pid)}
    assert listening == {int(server.url.rpartition(":")[2])}


def family(pid: int) -> set[int]:
    """``pid`` and its descendants."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    below = {int(child) for path in children for child in path.read_text().split()}
    return {pid}.union(*(family(child) for child in below))


def listening_ports(pid: int) -> set[int]:
    """The TCP ports on which ``pid`` listens, of IPv4 and IPv6 (proc(5), net/tcp)."""
    sockets = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def test_without_login_or_xsrf_nothing_is_answered_or_done(server: SessionServer) -> None:
    write_run(server.home / "first/run")
    board = server.start("first")
    server.until(board, "ready")
    number = board["number"]
    with httpx.Client(base_url=server.url + BASE, timeout=120) as stranger:
        for method, path in (
            ("GET", "portal/tensorboard/"),
            ("GET", "portal/tensorboard/api/running"),
            ("GET", "portal/tensorboard/api/folders"),
            ("POST", "portal/tensorboard/api/running"),
            ("DELETE", f"portal/tensorboard/api/running/{number}"),
            ("GET", f"portal/tensorboard/{number}/"),
            ("GET", f"portal/tensorboard/{number}/data/runs"),
            ("POST", f"portal/tensorboard/{number}/data/plugin/timeseries/timeSeries"),
        ):
            answer = stranger.request(method, path)
            assert answer.status_code in (302, 403), (method, path, answer.status_code)
    token = {"token": server.client.headers["Authorization"].split()[1]}
    with httpx.Client(base_url=server.url + BASE, follow_redirects=True, timeout=120) as browser:
        # With a cookie, as a browser has it after the login: then XSRF counts.
        page = browser.get("portal/tensorboard/", params=token)
        assert page.status_code == 200
        path = f"portal/tensorboard/api/running/{number}"
        assert browser.delete(path).status_code == 403
        assert browser.post("portal/tensorboard/api/running", json={}).status_code == 403
        xsrf = page.text.partition('data-xsrf="')[2].partition('"')[0]
        assert browser.delete(path, headers={"X-XSRFToken": xsrf}).status_code == 204


def test_asking_for_news_is_no_activity(server: SessionServer) -> None:
    write_run(server.home / "first/run")
    board = server.start("first")
    server.until(board, "ready")

    def last() -> float:
        said = server.client.get("api/status").json()["last_activity"]
        return datetime.fromisoformat(said).timestamp()

    before = last()
    began = time.time()
    for _ in range(3):
        assert server.get(board, "data/runs").is_success
        assert server.get(board).is_success
        server.ask("GET", "api/running")
        server.ask("GET", f"api/running/{board['number']}")
        server.client.post(server.url + board["url"] + "data/plugin/timeseries/timeSeries")
    assert last() == pytest.approx(before, abs=0.005) and last() < began
    while time.time() < before + 1.5:  # within a second it would be the same activity
        time.sleep(0.1)
    server.start("first")  # somebody opens it: that is
    assert last() > began


class Big(RequestHandler):
    async def get(self, megabytes: str) -> None:
        for _ in range(int(megabytes)):
            self.write(bytes(1_000_000))
            await self.flush()


class Headers(RequestHandler):
    def post(self) -> None:
        self.write({"headers": dict(self.request.headers), "body": len(self.request.body)})


class Echo(WebSocketHandler):
    def check_origin(self, _: str) -> bool:
        return True

    def on_message(self, message: str | bytes) -> None:
        self.write_message(message, binary=isinstance(message, bytes))


@pytest.fixture
async def stand_in(server: SessionServer) -> AsyncIterator[dict[str, Any]]:
    """A server of ours where a TensorBoard would listen: it answers what TensorBoard cannot."""
    place = server.runtime / "2000"
    place.mkdir()
    record.write(place / "about.json", {"name": "x", "folders": [], "started": 1, "origin": "page"})
    own = {"pid": os.getpid(), "birth": record.own_birth(), "phase": "ready"}
    record.write(place / "state.json", own)
    prefix = f"{BASE}portal/tensorboard/2000/"
    routes = [("big/([0-9]+)", Big), ("headers", Headers), ("echo", Echo)]
    web = Application([(prefix + path, handler) for path, handler in routes])
    server.get({"url": prefix})  # the proxy is imported with the first request of all
    http = HTTPServer(web)
    http.add_socket(bind_unix_socket(str(place / "socket")))
    yield {"url": prefix, "number": 2000}
    http.stop()
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


def peak(pid: int) -> int:
    """The most memory that ``pid`` ever had, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


async def test_large_answers_pass_through_without_being_held(
    server: SessionServer, stand_in: dict[str, Any]
) -> None:
    headers = server.client.headers
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        await client.get(f"{server.url}{stand_in['url']}big/1")  # what is imported is imported
        before = peak(server.process.pid)
        received = 0
        async with client.stream("GET", f"{server.url}{stand_in['url']}big/150") as answer:
            assert answer.status_code == 200
            async for chunk in answer.aiter_bytes():
                received += len(chunk)
    assert received == 150_000_000
    assert peak(server.process.pid) - before < 50


async def test_the_sessions_login_is_not_handed_on(
    server: SessionServer, stand_in: dict[str, Any]
) -> None:
    headers = {**server.client.headers, "Cookie": "secret=1", "X-XSRFToken": "2"}
    async with httpx.AsyncClient(headers=headers, timeout=120) as client:
        url = f"{server.url}{stand_in['url']}headers"
        seen = (await client.post(url, content=b"x" * 100_000)).json()
    assert seen["body"] == 100_000
    names = {name.lower() for name in seen["headers"]}
    assert not names & {"authorization", "cookie", "x-xsrftoken"}


async def test_websockets_pass_through(server: SessionServer, stand_in: dict[str, Any]) -> None:
    from tornado.httpclient import HTTPClientError, HTTPRequest

    url = f"{server.url}{stand_in['url']}echo".replace("http", "ws", 1)
    with pytest.raises(HTTPClientError, match="403"):
        await websocket_connect(url)
    own = {"Authorization": server.client.headers["Authorization"]}
    socket = await websocket_connect(HTTPRequest(url, headers=own))
    for message in ("hello", b"\x00\xff"):
        await socket.write_message(message, binary=isinstance(message, bytes))
        assert await socket.read_message() == message
    socket.close()


def test_it_ends_with_the_session_and_leaves_nothing(python: Path) -> None:
    for end in (signal.SIGTERM, signal.SIGKILL):
        with a_server(python) as server:
            write_run(server.home / "logs/run")
            board = server.start("logs")
            server.until(board, "ready")
            runtime = server.runtime
            state = record.read(runtime / str(board["number"]) / "state.json")
            assert record.is_alive(state)
            server.process.send_signal(end)
            server.process.wait(30)
            wait_for(lambda state=state: not record.is_alive(state))
            wait_for(lambda runtime=runtime: not runtime.exists())


def test_one_that_is_killed_says_so(server: SessionServer) -> None:
    write_run(server.home / "first/run")
    board = server.start("first")
    server.until(board, "ready")
    os.kill(record.read(server.runtime / f"{board['number']}/state.json")["pid"], signal.SIGKILL)
    assert "ran out of memory" in server.until(board, "ended")["words"]
    assert server.get(board).status_code == 410
    assert server.get(board, "data/runs").status_code == 410


def test_no_more_than_eight_at_once(server: SessionServer) -> None:
    from portal_session.tensorboard.running import MOST_RUNNING

    for number in range(MOST_RUNNING + 1):
        (server.home / f"eight/{number}").mkdir(parents=True)
    for number in range(MOST_RUNNING):
        server.start(f"eight/{number}")
    last = server.ask("POST", "api/running", json={"folders": [f"eight/{MOST_RUNNING}"]})
    assert last.status_code == 409 and "Stop one first" in last.json()["message"]


def test_a_session_for_tensorboard_alone_opens_with_it(python: Path, tmp_path: Path) -> None:
    logs = write_run(tmp_path / "logs/run").parent
    named = json.dumps([str(logs), "/etc"])
    roots = json.dumps([str(tmp_path), "/", 5, "relative"])  # "/" would be everything
    with a_server(python, PORTAL_TENSORBOARD=named, PORTAL_TENSORBOARD_ROOTS=roots) as server:
        refused, board = server.ask("GET", "api/running").json()["running"]
        assert "/etc is outside" in refused["words"]
        assert board["folders"] == [str(logs)]
        assert server.client.get("").headers["Location"] == board["url"]
        server.until(board, "ready")
        assert runs(server, board) == ["run"]
