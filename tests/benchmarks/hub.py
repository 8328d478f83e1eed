"""Hub of the benchmarks: started as the account `portal`, queried, measured and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from portal.demo.daemons.process import end_child, prefer

from .cluster import HERE, PARTITION, ROOT, Cluster, NotMeasured, free_port, wait_for

_TICKS = os.sysconf("SC_CLK_TCK")


class Answer:
    """Result of a launch: HTTP status (0: no response), text, seconds from POST to response."""

    def __init__(self, status: int, text: str, seconds: float) -> None:
        self.status, self.text, self.seconds = status, text, seconds


class BenchHub:
    """Hub with the spawner ``kind`` ("noop", "stock", "moss", "ours", "course" or
    "page"); see hub_config.py."""

    def __init__(
        self, cluster: Cluster, kind: str, settings: Mapping[str, str], partition: str = PARTITION
    ) -> None:
        self.cluster = cluster
        self.url = f"http://127.0.0.1:{free_port()}"
        self.place = cluster.place / f"{kind}-{secrets.token_hex(3)}"
        self.log = self.place / "hub.log"
        self._token = secrets.token_hex(16)
        self._make_places(kind)
        env = {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
            "BENCH_SPAWNER": kind,
            "BENCH_URL": self.url,
            "BENCH_HUB_URL": f"http://127.0.0.1:{free_port()}",
            "BENCH_PROXY_API_URL": f"http://127.0.0.1:{free_port()}",
            "BENCH_PROXY": _proxy(cluster.running.home.cache),
            "BENCH_TOKEN": self._token,
            "BENCH_PORT": str(cluster.port),
            "BENCH_STUB": str(cluster.stub),
            "BENCH_PARTITION": partition,
            "PORTAL_SERVICE_PORT": str(free_port()),
            "BENCH_LOGS": str(self.place / "sessions"),
            "BENCH_ENVIRONMENTS": str(self.place / "environments"),
            **settings,
        }
        program = (
            "jupyterhub" if kind in ("ours", "course", "page") else "tests.benchmarks.peer_hub"
        )
        command = [sys.executable, "-m", program, "-f", str(HERE / "hub_config.py")]
        self.environment = env
        in_place = ["env", f"--chdir={self.place}", *command]
        with self.log.open("wb") as log:
            # All wrappers exec the next program, so the Hub has this process id.
            self.process = subprocess.Popen(
                cluster.running.command(in_place, "portal", env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _make_places(self, kind: str) -> None:
        uid = self.cluster.uid("portal")
        for path, mode in (
            (self.place, 0o755),
            (self.place / "sessions", 0o711),
            (self.place / "environments", 0o755),
        ):
            path.mkdir()
            os.chown(path, uid, -1)
            path.chmod(mode)
        # The command is the stub, so `path` is not searched and no image is opened.
        definition = {"name": "stub", "title": "Stub", "kind": "venv", "path": "/usr"}
        if kind == "course":
            definition |= {"kind": "container", "image": str(self.cluster.stub)}
        (self.place / "environments/stub.yaml").write_text(json.dumps(definition))

    def wait(self, people: Sequence[str]) -> None:
        """Wait until the Hub serves, and create ``people``."""
        wait_for("the Hub", lambda: self.process.poll() is not None or self._serves(), 60)
        if self.process.poll() is not None:
            raise NotMeasured(f"the Hub ended at its start: {self.last_words()}")
        prefer(self.process.pid)  # as in the demo, with proxy and service, whatever the spawner
        if people:
            self.ask("POST", "/users", {"usernames": list(people)})
        time.sleep(1)  # work of a Hub just after its start is not part of a launch

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST API as the benchmarks' service."""
        request = urllib.request.Request(
            f"{self.url}/hub/api{path}",
            method=method,
            headers={"Authorization": f"token {self._token}"},
            data=None if body is None else json.dumps(body).encode(),
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    async def launch(self, name: str) -> Answer:
        """Request a session; return when it is ready (201) or has failed."""
        # Not a client library: a hundred of its connections would cost as much as a Hub's launch.
        host, port = urlsplit(self.url).hostname, urlsplit(self.url).port
        began = time.monotonic()
        status, text = 0, ""
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(
                f"POST /hub/api/users/{name}/server HTTP/1.1\r\nHost: {host}:{port}\r\n"
                f"Authorization: token {self._token}\r\nConnection: close\r\n"
                "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".encode()
            )
            await writer.drain()
            head, _, text = (await reader.read()).decode(errors="replace").partition("\r\n\r\n")
            status = int(head.split(" ", 2)[1])
            writer.close()
        except (OSError, IndexError, ValueError) as error:
            text = str(error)
        return Answer(status, text, time.monotonic() - began)

    def stop_server(self, name: str) -> None:
        """Stop the session of ``name``; return once the Hub has accepted that."""
        request = urllib.request.Request(
            f"{self.url}/hub/api/users/{name}/server",
            method="DELETE",
            headers={"Authorization": f"token {self._token}"},
        )
        urllib.request.urlopen(request, timeout=60).close()

    def servers(self) -> int:
        """Count the people with a session that runs, starts or stops."""
        people = self.ask("GET", "/users?limit=200")
        return sum(bool(person["servers"] or person["pending"]) for person in people)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the Hub and of the commands that have ended (proc(5), stat)."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat[stat.rindex(")") + 2 :].split()
        return sum(int(field) for field in fields[11:15]) / _TICKS

    def memory_mib(self) -> float:
        """Return the proportional set size of the Hub's process."""
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        raise NotMeasured("the kernel does not tell the Hub's memory")

    def last_words(self) -> str:
        """Return the end of the Hub's log."""
        return " | ".join(self.log.read_text(errors="replace").splitlines()[-4:])

    def stop(self) -> None:
        """Stop the Hub and its proxy."""
        end_child(self.process, 15)

    def _serves(self) -> bool:
        try:
            self.ask("GET", "/users")
        except OSError:
            return False
        return True


@contextlib.contextmanager
def bench_hub(
    cluster: Cluster,
    kind: str,
    people: Sequence[str],
    partition: str = PARTITION,
    **settings: str,
) -> Iterator[BenchHub]:
    """Run a Hub that knows ``people`` while the block runs; its jobs end with it."""
    rule = cluster.stock_rule() if kind in ("stock", "moss") else contextlib.nullcontext()
    with rule:
        hub = BenchHub(cluster, kind, settings, partition)
        try:
            hub.wait(people)
            yield hub
        finally:
            hub.stop()
            cluster.clear()
            if keep := os.environ.get("BENCH_KEEP_LOGS"):
                shutil.copy(hub.log, Path(keep) / f"{kind}.log")


def _proxy(cache: Path) -> str:
    private = cache / "node/node_modules/.bin/configurable-http-proxy"
    program = str(private) if private.exists() else shutil.which("configurable-http-proxy")
    if not program:
        raise NotMeasured("configurable-http-proxy is missing; `make run` installs it")
    return program
