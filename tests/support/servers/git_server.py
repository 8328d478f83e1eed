"""Repositories on loopback, served by git's http-backend, and servers that only claim to be one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from quiet_http import QuietHandler, serving

_WHO = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgSign=false")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C.UTF-8",
}


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run git as a test user, without the machine's configuration; return its output."""
    done = subprocess.run(
        ["git", *_WHO, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


class Repository:
    """Repository in ``place``, with a working tree."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        git(place, "init", "-q", "-b", "main")

    def write(self, name: str, text: str | bytes = "") -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def commit(self) -> str:
        git(self.place, "add", "-A")
        git(self.place, "commit", "-q", "--allow-empty", "-m", "more")
        return git(self.place, "rev-parse", "HEAD")

    def tree(self, *entries: tuple[str, str, bytes]) -> str:
        """Commit a tree of (mode, name, content) that git itself would never create."""
        lines = b""
        for mode, name, content in entries:
            if mode == "160000":
                blob = "a" * 40
            else:
                kind = "tree" if mode == "40000" else "blob"
                written = git(
                    self.place, "hash-object", "-t", kind, "--literally", "-w", "--stdin",
                    stdin=content,
                )  # fmt: skip
                blob = written
            lines += f"{mode} {name}".encode("utf-8", "surrogateescape") + b"\0"
            lines += bytes.fromhex(blob)
        tree = git(
            self.place, "hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=lines
        )
        commit = git(self.place, "commit-tree", tree, "-m", "hostile")
        git(self.place, "update-ref", "refs/heads/main", commit)
        return tree


class GitServer:
    """Server of the repositories below ``root`` at ``url``; ``asked``: the requested paths."""

    def __init__(self, root: Path, url: str) -> None:
        self.root, self.url = root, url
        self.asked: list[str] = []
        self.instead: Callable[[QuietHandler], None] | None = None

    def answer_only(self, status: int, header: str, value: str) -> None:
        """Answer each request with this status and header from now on."""

        def answer(handler: QuietHandler) -> None:
            handler.send_response(status)
            handler.send_header(header, value)
            handler.end_headers()

        self.instead = answer


@contextmanager
def serve(root: Path) -> Iterator[GitServer]:
    """Serve all repositories below ``root``."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            server.asked.append(self.path)
            if server.instead is not None:
                server.instead(self)
                return
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            done = subprocess.run(
                ["git", "http-backend"],
                input=self.rfile.read(length),
                env={
                    **ENVIRONMENT,
                    "GIT_PROJECT_ROOT": str(root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_CONFIG_COUNT": "1",
                    "GIT_CONFIG_KEY_0": "safe.directory",
                    "GIT_CONFIG_VALUE_0": "*",
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": parts.path,
                    "QUERY_STRING": parts.query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                },
                capture_output=True,
                check=False,
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            headers = dict(
                line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line
            )
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

    with serving(Handler) as http:
        server = GitServer(root, f"http://127.0.0.1:{http.server_port}")
        yield server
