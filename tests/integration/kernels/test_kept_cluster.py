"""A kept Dask cluster: scheduler's job, workers, broker, relays and keys are real; the portal and
Slurm are played. On a real Slurm: tests/hub/sessions/test_dask.py."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest
from cluster_session import Portal, Session, listening, until
from conftest import ROOT
from machine import patience
from portal_session.clusters import record as records
from portal_session.clusters.dask import kept as kept_cluster
from portal_session.clusters.dask.kept_list import clusters
from portal_session.clusters.dask.new import dask
from portal_session.clusters.error import ClusterError
from portal_session.clusters.job.dask_worker import security
from portal_session.clusters.kept import state as states
from portal_session.clusters.kept.starter import PATH
from portal_session.job_kernels import broker
from portal_session.job_kernels.wire.keys import make_keys
from portal_session.service import ServiceError
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

MOST, SCHEDULER = 4, -1  # the number of a scheduler among the jobs


class KeptPortal(Portal):
    """The portal and Slurm, with kept clusters: their schedulers' jobs ask over HTTP."""

    def __init__(self, environ: dict[str, str]) -> None:
        super().__init__(environ)
        self.kept: set[str] = set()
        self.idle = 600.0
        self.scheduler_seconds = 0

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        id = path.removeprefix(PATH).strip("/")
        if not path.startswith(PATH):
            return await super().ask(method, path, body)
        if not id:
            items = [self._item(each) for each in sorted(self.kept)]
            return {"items": items, "idle": self.idle, "most": MOST}
        if method == "PUT":
            workers = body.pop("workers")
            if workers >= MOST:
                raise ServiceError(f"The limit is {MOST}.", 403)
            self.kept.add(id)
            self.wanted[id] = workers
            self.resources = body
        elif id not in self.kept:
            raise ServiceError("You have no such kept cluster.", 404)
        if method == "DELETE":
            self.wanted[id] = 0
            self.kept.discard(id)
        self.reconcile()
        return self._item(id)

    def _item(self, id: str) -> dict[str, Any]:
        job = self.jobs.get((id, SCHEDULER))
        running = sum(of == id and number != SCHEDULER for of, number in self.jobs)
        return {
            "id": id,
            "environment": "torch",
            "workers": self.wanted.get(id, 0),
            "running": running,
            "problem": "",
            "state": "running" if job and job.poll() is None else None,
            "address": "127.0.0.1",
        }

    def reconcile(self) -> None:
        for (id, number), job in list(self.jobs.items()):
            if number == SCHEDULER and id not in self.kept and job.poll() is None:
                job.send_signal(signal.SIGTERM)
        super().reconcile()
        for id in self.kept:
            if (id, SCHEDULER) not in self.jobs:
                about = json.dumps({"id": id, "seconds": self.scheduler_seconds})
                self.jobs[id, SCHEDULER] = subprocess.Popen(
                    [sys.executable, "-m", "portal_session.clusters.kept.starter"],
                    env={**self._environ, "PORTAL_CLUSTER": about},
                    start_new_session=True,
                )

    def scheduler(self, id: str) -> subprocess.Popen[bytes]:
        return self.jobs[id, SCHEDULER]


class _Asked(RequestHandler):
    def initialize(self, portal: KeptPortal) -> None:
        self.portal = portal

    async def _answer(self, path: str) -> None:
        assert self.request.headers["Authorization"] == "token secret"
        body = json.loads(self.request.body) if self.request.body else None
        try:
            self.finish(await self.portal.ask(str(self.request.method), path, body))
        except ServiceError as error:
            self.set_status(error.status)
            self.finish({"error": {"message": str(error)}})

    get = put = delete = _answer


class KeptSession(Session):
    """A session's server; ``portal`` is that of a session before it."""

    def __init__(self, home: Path, folder: Path, portal: KeptPortal | None = None) -> None:
        self._given = portal
        super().__init__(home, folder)
        self._http: HTTPServer | None = None
        if portal is None:
            self.portal = KeptPortal(self.portal._environ)
            self.run(self._serve_portal())
        else:
            self.portal = portal
        self.kept._kernels = self.portal

    async def _serve_portal(self) -> None:
        at, port = bind_unused_port()
        routes = [("/services/portal/api/v1/(.*)", _Asked, {"portal": self.portal})]
        self._http = HTTPServer(Application(routes))
        self._http.add_socket(at)
        self.portal._environ |= {
            "PORTAL_SERVICE_URL": f"http://127.0.0.1:{port}/services/portal",
            "JUPYTERHUB_API_TOKEN": "secret",
        }

    def close(self) -> None:
        if self._given is not None:
            self.portal.jobs = {}  # the first session ends them
        super().close()


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptSession]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:0/user/ada/")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "kernels"))  # of the jobs
    monkeypatch.setenv(broker.VARIABLE, "")
    with tempfile.TemporaryDirectory() as folder:
        made = KeptSession(tmp_path, Path(folder))
        yield made
        made.portal.kept.clear()
        made.close()


def test_a_kept_cluster_outlives_its_kernel(session: KeptSession) -> None:
    code = (
        "from portal_session.clusters.dask.new import dask\n"
        "cluster = dask(2, keep=True, cpus=1, memory='500M')\n"
        "client = cluster.client(); client.wait_for_workers(2)\n"
        "client.publish_dataset(squares=client.map(lambda n: n * n, range(10)))\n"
        "print(cluster.name, flush=True)"
    )
    kernel = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(90)
    )
    assert kernel.returncode == 0, kernel.stderr
    name = kernel.stdout.strip()
    (known,) = clusters()
    assert (known.name, known.workers, known.running) == (name, 2, 2)
    assert session.portal.resources == {"cpus": 1, "memory": "500M", "keep": ""}
    for path in (records.path_of(name), records.path_of(name).with_suffix(".kept")):
        assert path.stat().st_mode & 0o077 == 0

    cluster = dask(name[:6])
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=patience(40))
        squares = client.gather(client.get_dataset("squares"))
    assert squares == [n * n for n in range(10)]
    cluster.scale(1)
    until("one worker is left", lambda: len(session.portal.pids()) == 2)  # and the scheduler
    assert session.portal.resources == {"cpus": 1, "memory": "500M"}
    with pytest.raises(ClusterError, match=rf"The limit is {MOST}\."):
        cluster.scale(MOST)
    cluster.close()
    assert "closed" in repr(cluster) and len(session.portal.pids()) == 2

    again = dask(name)
    again.shutdown()
    until("nothing is left", lambda: session.portal.reconcile() or not session.portal.pids())
    assert clusters() == [] and not records.path_of(name).exists()
    with pytest.raises(ClusterError, match="There is no kept cluster 'abcd': it was stopped"):
        dask("abcd")


def test_workers_without_a_client_are_stopped(session: KeptSession) -> None:
    session.portal.idle = 4.0
    cluster = dask(1, keep=True)
    with cluster.client() as client:
        client.wait_for_workers(1, timeout=patience(60))
        time.sleep(2 * session.portal.idle)  # a client that thinks is a client
        assert session.portal.wanted[cluster.name] == 1
        later = client.submit(time.sleep, 9)
        distributed.fire_and_forget(later)
    name = cluster.name
    cluster.close()
    time.sleep(1.5 * session.portal.idle)  # a task is as good
    assert session.portal.wanted[name] == 1
    until("no worker is wanted", lambda: session.portal.wanted[name] == 0)
    assert session.portal.scheduler(name).poll() is None, "the scheduler stays"
    with dask(name) as cluster, cluster.client() as client:
        cluster.scale(1)
        assert client.submit(pow, 2, 3).result(timeout=patience(60)) == 8
    dask(name).shutdown()


def test_what_a_lost_scheduler_had_is_said(
    session: KeptSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_cluster, "_EVERY", 300)
    session.portal.scheduler_seconds = 300
    cluster = dask(1, keep=True)
    cluster.wait_for_workers(1, timeout=patience(60))
    until("its end is said", lambda: "ends at" in capsys.readouterr().err)
    name, first = cluster.name, session.portal.scheduler(cluster.name)
    first.terminate()  # as at its time limit
    assert first.wait(patience(20)) == 0
    assert records.read(name).address == ""
    session.keep_running()
    until("the notebook knows", lambda: "Another follows" in capsys.readouterr().err)
    assert "closed" in repr(cluster)

    again = dask(name)
    said = capsys.readouterr().err
    assert f"The scheduler of cluster {name} was started again at" in said
    assert "results of before are lost. Submit them again." in said
    until("its workers follow", lambda: session.keep_running() or again.scheduler_info["workers"])
    with again.client() as client:
        assert client.submit(pow, 3, 2).result(timeout=patience(60)) == 9
    again.close()
    dask(name).shutdown()
    assert "was started again" not in capsys.readouterr().err, "once"


def test_a_cluster_without_workers_ends_with_its_schedulers_job(session: KeptSession) -> None:
    session.portal.scheduler_seconds = 66
    cluster = dask(0, keep=True)
    name = cluster.name
    cluster.close()
    until("the cluster ends", lambda: name not in session.portal.kept, 90)


def test_the_pages_are_for_who_has_the_keys(session: KeptSession) -> None:
    cluster = dask(1, keep=True)
    cluster.wait_for_workers(1, timeout=patience(60))
    name = cluster.name
    host, _, port = states.read(name).dashboard.rpartition(":")

    session.run(session.kept.prepare(name))
    with socket.socket(socket.AF_UNIX) as page:
        page.settimeout(patience(20))
        page.connect(str(session.kept.socket(name)))
        page.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert page.makefile("rb").read().endswith(b"ok")

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):  # no certificate of its own
        with context.wrap_socket(socket.create_connection((host, int(port)))) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert connection.recv(1) == b"", "closed"
            raise ConnectionError
    with socket.create_connection((host, int(port))) as connection:  # in the clear
        connection.settimeout(patience(20))
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"ok" not in connection.recv(1000)
    with pytest.raises((OSError, RuntimeError)):
        distributed.Client(cluster.scheduler_address, security=security(*make_keys()), timeout="3s")
    with cluster.client() as client:
        assert client.scheduler_info()["id"]

    children = {
        int(pid)
        for task in Path(f"/proc/{session.portal.scheduler(name).pid}/task").iterdir()
        for pid in (task / "children").read_text().split()
    }
    ports = listening(session.portal.scheduler(name).pid, *children)
    assert ports == {int(port), int(cluster.scheduler_address.rpartition(":")[2])}
    cluster.shutdown()


def test_a_scheduler_that_is_refused_leaves_nothing(session: KeptSession) -> None:
    with pytest.raises(ClusterError, match=rf"The limit is {MOST}\."):
        dask(MOST, keep=True)
    assert not list(records.path_of("12345678").parent.iterdir())
    for wrong, words in ((dict(keep=True), "no other options"), (dict(cpus=1), "no other options")):
        with pytest.raises(ClusterError, match=words):
            dask("12345678", **wrong)
    with pytest.raises(ClusterError, match="You have none"):
        dask("12345678")
