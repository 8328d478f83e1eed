"""A session's server with its broker, for clusters: the portal and Slurm are played."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from machine import patience
from portal_session.clusters.clusters import PATH, Clusters
from portal_session.clusters.kept.kept import KeptClusters
from portal_session.clusters.routes import broker_routes
from portal_session.job_kernels import broker
from portal_session.service import ServiceError

MOST = 3


class Portal(broker.Kernels):
    """The portal and Slurm: a job is a process of this machine, which is started again when it has
    ended."""

    def __init__(self, environ: dict[str, str]) -> None:
        super().__init__(None)
        self._environ = environ
        self.wanted: dict[str, int] = {}
        self.jobs: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.resources: dict[str, Any] = {}
        self.problem = ""
        self.seconds = 0
        self.started = 0

    async def offered(self) -> dict[str, Any]:
        return {"address": "127.0.0.1"}

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        id = path.removeprefix(f"{PATH}").strip("/")
        if not id:
            return {"most": MOST}
        if method == "PUT":
            workers = body.pop("workers")
            if workers > MOST:
                raise ServiceError(f"The limit is {MOST}.", 403)
            self.resources, self.wanted[id] = body, workers
        elif method == "DELETE":
            self.wanted[id] = 0
        self.reconcile()
        if method == "GET" and not self.wanted.get(id):
            raise ServiceError("This session has no such cluster.", 404)
        return {"id": id, "workers": self.wanted[id], "problem": self.problem}

    def reconcile(self) -> None:
        for (id, number), job in list(self.jobs.items()):
            if job.poll() is not None:
                del self.jobs[id, number]
            elif number >= self.wanted[id]:
                job.send_signal(signal.SIGTERM)
        for id, workers in self.wanted.items():
            for number in range(workers):
                if (id, number) not in self.jobs:
                    self.started += 1
                    self.jobs[id, number] = self._job(id, number)

    def _job(self, id: str, number: int) -> subprocess.Popen[bytes]:
        about = json.dumps({"id": id, "number": number, "seconds": self.seconds})
        of_job = {"SLURM_JOB_ID": str(100 + self.started), "SLURM_CPUS_PER_TASK": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "portal_session.clusters.starter"],
            env={**self._environ, **of_job, "PORTAL_CLUSTER": about},
            start_new_session=True,
        )

    def pids(self) -> list[int]:
        return [job.pid for job in self.jobs.values() if job.poll() is None]


class Session:
    """The session's server, in a thread of its own."""

    def __init__(self, home: Path, folder: Path) -> None:
        environ = {**os.environ, "HOME": str(home), "SLURM_MEM_PER_NODE": "500"}
        self.portal = Portal(environ)
        self.loop = asyncio.new_event_loop()
        self.clusters = Clusters(self.portal, "/user/ada/", os.environ, logging.getLogger("test"))
        self._thread = threading.Thread(target=self._run, args=(folder,), daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        assert self._ready.wait(20)

    def _run(self, folder: Path) -> None:
        asyncio.set_event_loop(self.loop)

        async def begin() -> None:
            self.kept = KeptClusters(self.portal, "/user/ada/", os.environ)
            routes = broker_routes(self.clusters, self.kept)
            self._server = broker.serve(self.portal, folder, routes)
            self._ready.set()

        self.loop.create_task(begin())
        self.loop.run_forever()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def keep_running(self) -> None:
        self.loop.call_soon_threadsafe(self.portal.reconcile)

    def close(self) -> None:
        async def end() -> None:
            self.clusters.stop()
            self.kept.stop()
            self._server.stop()

        self.run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        for job in self.portal.jobs.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait(20)


@contextlib.contextmanager
def played_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Run a session's server, whose kernel is this process."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:0/user/ada/")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "kernels"))  # of the jobs
    monkeypatch.setenv(broker.VARIABLE, "")
    with tempfile.TemporaryDirectory() as folder:
        made = Session(home, Path(folder))
        yield made
        made.close()


def until(what: str, ready: Callable[[], Any], seconds: float = 40) -> None:
    end = time.monotonic() + patience(seconds)
    while not ready():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def listening(*pids: int) -> set[int]:
    """Return the TCP ports on which these processes listen."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(str(descriptor.readlink()))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
