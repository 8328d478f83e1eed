"""A notebook's Dask cluster: scheduler, workers, broker and keys are real; the portal and Slurm are
played. On a real Slurm: tests/hub/sessions/test_dask.py."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import distributed
import pytest
from cluster_session import Session, listening, played_session, until
from machine import patience
from portal_session.clusters import record as records
from portal_session.clusters.clusters import PATH
from portal_session.clusters.dask.new import dask
from portal_session.clusters.error import ClusterError
from portal_session.clusters.job.dask_worker import security
from portal_session.job_kernels import broker
from portal_session.job_kernels.wire.keys import make_keys


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    with played_session(tmp_path, monkeypatch) as made:
        yield made


def test_one_line_gives_workers_and_close_ends_them(session: Session) -> None:
    cluster = dask(2, cpus=1, memory="500M")
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=patience(40))
        assert session.portal.resources == {"cpus": 1, "memory": "500M"}
        assert sum(client.gather(client.map(lambda n: n * n, range(50)))) == 40425
        workers = client.scheduler_info()["workers"].values()
        assert {worker["nthreads"] for worker in workers} == {1}
        assert {worker["memory_limit"] for worker in workers} == {500 * 1024**2}
        assert cluster.scheduler_address.startswith("tls://127.0.0.1:")
        path = f"/user/ada/portal/clusters/{cluster.name}/status"
        assert repr(cluster) == f"<DaskCluster 2 of 2 workers, 2 threads, {path}>"
        assert path in cluster._repr_html_()
        held = records.path_of(cluster.name)
        assert held.stat().st_mode & 0o077 == 0

        cluster.scale(1)
        until("one worker is left", lambda: len(session.portal.pids()) == 1)
        assert client.submit(pow, 12, 2).result(timeout=patience(30)) == 144
        with pytest.raises(ClusterError, match=r"The limit is 3\."):
            cluster.scale(4)
    cluster.close()
    until("no worker is left", lambda: not session.portal.pids())
    assert not held.exists() and "closed" in repr(cluster)


def test_nothing_is_lost_when_workers_end_and_are_replaced(session: Session) -> None:
    session.portal.seconds = 27  # of each job; the workers live for 12 and for 10 s
    cluster = dask(2)
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=patience(40))
        first, values, futures = session.portal.started, 0, []
        end = time.monotonic() + patience(120)
        while session.portal.started < first + 2:
            assert time.monotonic() < end, "no worker was replaced"
            done = client.map(lambda n: (time.sleep(0.1), n)[1], range(values, values + 10))
            values, futures = values + 10, futures + done
            distributed.wait(done)
            session.keep_running()
        assert client.gather(futures) == list(range(values))
    cluster.close()


def test_workers_end_when_the_scheduler_dies(session: Session) -> None:
    code = (
        "import os, time; from portal_session.clusters.dask.new import dask\n"
        "cluster = dask(2); cluster.wait_for_workers(2)\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    kernel = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert kernel.stdout is not None and kernel.stdout.readline() == b"ready\n"
        (id,) = session.clusters.clusters
        assert len(session.portal.pids()) == 2
        kernel.kill()
        until("the workers end by themselves", lambda: not session.portal.pids())
        until("the portal wants none any more", lambda: session.portal.wanted[id] == 0)
        assert not session.clusters.clusters and not records.path_of(id).exists()
    finally:
        kernel.kill()
        kernel.wait()
        kernel.stdout.close()


def test_a_stranger_with_the_address_is_refused(session: Session) -> None:
    with dask(0) as cluster:
        address = cluster.scheduler_address
        host, port = address.removeprefix("tls://").split(":")
        strange = security(*make_keys())
        for keys in (strange, distributed.Security(tls_ca_file=None)):
            with pytest.raises((OSError, TypeError, RuntimeError)):
                distributed.Client(address, security=keys, timeout="3s")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((ssl.SSLError, ConnectionError)):  # no certificate of its own
            with context.wrap_socket(socket.create_connection((host, int(port)))) as connection:
                connection.send(b"x")
                assert connection.recv(1) == b"", "closed"
                raise ConnectionError
        assert cluster.client().scheduler_info()["id"]
        about = cluster._about
        assert Path(about["socket"]).stat().st_mode & 0o077 == 0
        assert Path(about["socket"]).parent.parent.stat().st_mode & 0o077 == 0


def test_nobody_reads_the_pages_at_a_port(session: Session) -> None:
    before = listening(os.getpid())  # by other tests of this process
    with dask(1) as cluster:
        cluster.wait_for_workers(1, timeout=patience(40))
        mine = {cluster.scheduler_address.rpartition(":")[2]}
        mine |= {name.rpartition(":")[2] for name in cluster.scheduler_info["workers"]}
        found = listening(os.getpid(), *session.portal.pids()) - before
        assert found <= {int(port) for port in mine}
        with socket.socket(socket.AF_UNIX) as page:
            page.connect(cluster._about["socket"])
            page.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert page.recv(1000).endswith(b"ok")


def test_two_clusters_and_ports_that_are_taken(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        session.clusters._environ = {**os.environ, "PORTAL_KERNEL_PORTS": f"{port}-{port}"}
        with pytest.raises(ClusterError, match=r"None of the ports .* is free for the scheduler"):
            dask(1)
        assert not session.clusters.clusters
    session.clusters._environ = os.environ
    with dask(1) as first, dask(1) as second:
        for cluster in (first, second):
            with cluster.client() as client:
                assert client.submit(pow, 3, 2).result(timeout=patience(40)) == 9
        assert first.scheduler_address != second.scheduler_address


def test_load_brings_workers(session: Session) -> None:
    with dask(0) as cluster:
        cluster.adapt(0, 2, interval="300ms", target_duration="1s", wait_count=2)
        with cluster.client() as client:
            futures = client.map(lambda n: time.sleep(0.5) or n, range(20), pure=False)
            assert client.gather(futures) == list(range(20))
            assert session.portal.started >= 1
            del futures
            until("none is left without work", lambda: session.portal.wanted[cluster.name] == 0)
        with pytest.raises(ClusterError, match="can have 0 to 3 workers"):
            cluster.adapt(2, 9)


def test_a_stop_on_a_page_closes_the_cluster(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal_session.clusters.dask import cluster as module

    monkeypatch.setattr(module, "_EVERY", 200)
    cluster = dask(1)
    session.run(session.portal.ask("DELETE", f"{PATH}/{cluster.name}"))
    until("it is closed", lambda: cluster.status.name == "closed")
    assert "was stopped on the portal's pages" in capsys.readouterr().err


def test_what_cannot_be_is_refused_in_words(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (-1, True, 1.5, "2"):
        with pytest.raises(ClusterError, match="must be a whole number from 0 on"):
            dask(wrong)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"The limit is 3\."):
        dask(9)
    assert not session.clusters.clusters, "the refused one is forgotten"
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match="%pip install distributed"):
        dask(1)
    monkeypatch.undo()
    monkeypatch.setenv(broker.VARIABLE, "")
    with pytest.raises(ClusterError, match="only be"):
        dask(1)
