"""A notebook's Ray cluster: head, workers, broker and keys are real; the portal and Slurm are
played. On a real Slurm: tests/hub/sessions/test_ray.py."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from cluster_session import Session, listening, played_session, until
from machine import patience
from portal_session.clusters import leaf
from portal_session.clusters import record as records
from portal_session.clusters.clusters import PATH
from portal_session.clusters.error import ClusterError
from portal_session.clusters.ray.new import ray as ray_cluster
from portal_session.job_kernels import broker
from portal_session.job_kernels.wire.keys import make_keys
from portal_session.runs.ranks.network import own_address

ray = pytest.importorskip("ray")
JOIN = """
import sys
from ray._raylet import GcsClient
print(len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=5)), "nodes")
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    with played_session(tmp_path, monkeypatch) as made:
        yield made


def squares(connected: Any, number: int, seconds: float = 0.1) -> list[Any]:
    @connected.remote
    def square(n: int) -> int:
        time.sleep(seconds)
        return n * n

    return [square.remote(n) for n in range(number)]


def test_workers_from_one_line_end_and_are_replaced(session: Session) -> None:
    cluster = ray_cluster(2, cpus=1, memory="500M")
    connected = cluster.connect()
    until("both workers have connected", lambda: len(cluster.workers()) == 2)
    assert repr(cluster) == "<RayCluster 2 of 2 workers>"
    assert "2 of 2 workers" in cluster._repr_html_()
    for path in folders(*session.portal.pids(), cluster._head.pid):
        assert path.stat().st_mode & 0o077 == 0, "Ray lets everybody write into its own"
    assert session.portal.resources == {"cpus": 1, "memory": "500M", "engine": "ray"}
    assert connected.is_initialized() and connected is ray
    nodes = {node["NodeName"]: node["Resources"] for node in connected.nodes()}
    assert "CPU" not in nodes.pop("head"), "no task runs in the session"
    for has in nodes.values():
        assert has["CPU"] == 1 and "GPU" not in has
        assert has["object_store_memory"] + has["memory"] <= 500 * 1024**2
    assert sum(connected.get(squares(connected, 20), timeout=patience(60))) == 2470

    first, futures = session.portal.started, squares(connected, 60)
    done, _ = connected.wait(futures, num_returns=5, timeout=patience(30))
    assert len(done) == 5
    (job,) = (job for key, job in session.portal.jobs.items() if key[1] == 1)
    job.kill()  # as a node that is lost
    until("it has ended", lambda: job.poll() is not None)
    session.keep_running()
    until("it is replaced", lambda: session.portal.started == first + 1)
    assert connected.get(futures, timeout=patience(90)) == [n * n for n in range(60)]

    (again,) = (job for key, job in session.portal.jobs.items() if key[1] == 1)
    until(
        "the new one has connected",
        lambda: any(name == f"1-{100 + session.portal.started}" for name in cluster.workers()),
    )
    futures = squares(connected, 30)
    cluster.scale(1)  # a drained worker: its tasks end or go to the other
    until("the other one has ended", lambda: again.poll() is not None, 30)
    assert again.returncode == 0
    assert connected.get(futures, timeout=patience(60)) == [n * n for n in range(30)]
    with pytest.raises(ClusterError, match=r"The limit is 3\."):
        cluster.scale(4)
    with pytest.raises(ClusterError, match="Close that first"):
        ray_cluster(1)
    held, folder = records.path_of(cluster.name), Path(cluster._about["folder"])
    assert held.stat().st_mode & 0o077 == 0
    for name in ("token", "key.pem"):
        assert (folder / name).stat().st_mode & 0o077 == 0
    cluster.close()
    until("no worker is left", lambda: not session.portal.pids())
    assert not held.exists() and not folder.exists() and repr(cluster) == "<RayCluster closed>"
    assert not left(folder) and "RAY_USE_TLS" not in os.environ
    with pytest.raises(ClusterError, match="is closed"):
        cluster.scale(1)


def folders(*pids: int) -> list[Path]:
    """Return the private folders of nodes, which are in their options."""
    return [Path(json.loads(psutil.Process(pid).cmdline()[2])["folder"]) for pid in pids]


def left(folder: Path) -> list[str]:
    """Return the processes of the head that has this folder."""
    found = (process.info for process in psutil.process_iter(["cmdline"]))
    return [str(info) for info in found if str(folder) in " ".join(info["cmdline"] or [])]


def test_a_stranger_with_the_address_is_refused(session: Session, tmp_path: Path) -> None:
    cluster = ray_cluster(0)
    try:
        folder, host = cluster._about["folder"], cluster.address.rpartition(":")[0]
        keys = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
        (tmp_path / "wrong").write_text("0" * 64)
        wrong = {**keys, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "wrong")}
        other = tmp_path / "other"
        other.mkdir()
        record = records.ClusterRecord("", "", "", *make_keys(), token=cluster_token(folder))
        leaf.write_keys(other, record, host)
        (other / "ca.pem").write_text(Path(folder, "ca.pem").read_text())
        strange = {
            **keys,
            "RAY_TLS_SERVER_CERT": f"{other}/certificate.pem",
            "RAY_TLS_SERVER_KEY": f"{other}/key.pem",
        }
        tried = {
            "the keys and the token": keys,
            "in the clear": {},
            "no token": {**keys, "RAY_AUTH_MODE": "disabled"},
            "another token": wrong,
            "keys of another cluster": strange,
        }
        with ThreadPoolExecutor() as at_once:
            answers = at_once.map(lambda environ: tries(cluster.address, environ), tried.values())
        let_in = {
            what for what, answer in zip(tried, answers, strict=True) if answer == "1 nodes\n"
        }
        assert let_in == {"the keys and the token"}
        with pytest.raises((ssl.SSLError, ConnectionError)):  # no certificate of its own
            handshake(cluster.address, folder)

        (head,) = (p for p in psutil.Process().children() if p.pid == cluster._head.pid)
        processes = [head, *head.children(recursive=True)]
        assert any("raylet" in process.name() for process in processes)
        secret = cluster_token(folder)
        for process in processes:
            assert secret not in " ".join([*process.cmdline(), *process.environ().values()])
        refused = [plain(port) for port in listening(*(process.pid for process in processes))]
        assert len(refused) >= 3 and all(refused), refused
        assert Path(folder).stat().st_mode & 0o077 == 0
    finally:
        cluster.close()


def cluster_token(folder: str) -> str:
    return Path(folder, "token").read_text()


def tries(address: str, keys: dict[str, str]) -> str:
    """Return what a client of the head prints; "" if it is not let in in time."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    try:
        ran = subprocess.run(
            [sys.executable, "-c", JOIN, address],
            env={**environ, **keys},
            capture_output=True,
            timeout=patience(8),
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode()
    return ran.stdout.decode()


def handshake(address: str, folder: str) -> None:
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    context.check_hostname = False
    host, port = address.split(":")
    with context.wrap_socket(socket.create_connection((host, int(port)), 5)) as connection:
        connection.send(b"x")
        if not connection.recv(100):
            raise ConnectionError
        connection.recv(100)


def plain(port: int) -> bool:
    """Return True if what listens on this port says nothing to a stranger."""
    address = own_address("192.0.2.1")
    with socket.create_connection((address, port), 5) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        connection.settimeout(1)
        try:
            answer = connection.recv(100)
        except (ConnectionError, TimeoutError):
            return True
        return not answer or b"401" in answer.split(b"\r\n")[0]


def test_the_cluster_ends_with_its_kernel_and_workers_with_their_head(session: Session) -> None:
    code = (
        "import ray, time; from portal_session.clusters.ray.new import ray as new\n"
        "cluster = new(1)\n"
        "while not cluster.workers(): time.sleep(0.2)\n"
        "print(cluster._about['folder'], cluster._head.pid, flush=True); time.sleep(600)"
    )
    kernel = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert kernel.stdout is not None
        folder, head = kernel.stdout.readline().decode().split()
        (id,) = session.clusters.clusters
        (job,) = session.portal.jobs.values()
        kernel.kill()
        until("the head ends with it", lambda: not psutil.pid_exists(int(head)))
        until("nothing of it is left", lambda: not left(Path(folder)))
        until("the portal wants none any more", lambda: session.portal.wanted[id] == 0)
        until("the worker has ended", lambda: job.poll() is not None)
        assert not session.clusters.clusters and not records.path_of(id).exists()
    finally:
        kernel.kill()
        kernel.wait()
        kernel.stdout.close()


def test_a_head_that_dies_closes_the_cluster(
    session: Session, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal_session.clusters.ray import cluster as module

    monkeypatch.setattr(module, "_EVERY", 0.5)
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        session.clusters._environ = {**os.environ, "PORTAL_KERNEL_PORTS": f"{port}-{port}"}
        with pytest.raises(ClusterError, match=r"Ray needs \d+ ports of .*, and 0 are free"):
            ray_cluster(1)
        assert not session.clusters.clusters
    session.clusters._environ = {**os.environ, "PORTAL_KERNEL_PORTS": "46000-46099"}
    cluster = ray_cluster(1)
    assert 46000 <= int(cluster.address.rpartition(":")[2]) < 46100
    until("its worker has connected", lambda: len(cluster.workers()) == 1)
    (job,) = session.portal.jobs.values()
    assert cluster._head is not None
    mine = [cluster._head.pid, job.pid]
    tree = [psutil.Process(pid) for pid in mine]
    tree += [child for process in tree for child in process.children(recursive=True)]
    addresses = {
        found.laddr.port
        for process in tree
        for found in process.net_connections("tcp")
        if found.status == "LISTEN" and "Runtime" not in process.name()
    }
    assert all(46000 <= port < 46100 for port in addresses), addresses
    os.kill(cluster._head.pid, signal.SIGKILL)
    until("it is closed", cluster._closed.is_set)  # not by its words, which ask Ray for long now
    assert "closed" in repr(cluster)
    assert "The head of the Ray cluster has ended." in capfd.readouterr().err
    until("its worker has ended", lambda: job.poll() is not None)


def test_a_stop_on_a_page_closes_the_cluster(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal_session.clusters.ray import cluster as module

    monkeypatch.setattr(module, "_EVERY", 0.2)
    cluster = ray_cluster(1)
    session.run(session.portal.ask("DELETE", f"{PATH}/{cluster.name}"))
    until("it is closed", lambda: "closed" in repr(cluster))
    assert "was stopped on the portal's pages" in capsys.readouterr().err


def test_what_cannot_be_is_refused_in_words(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="must be a whole number from 0 on"):
        ray_cluster(-1)
    with pytest.raises(ClusterError, match=r"The limit is 3\."):
        ray_cluster(9)
    assert not session.clusters.clusters, "the refused one is forgotten"
    asked = broker_asks({"python": sys.executable, "cwd": "/", "engine": "spark"})
    assert asked == "'engine' must be dask or ray."
    monkeypatch.setattr(ray, "__version__", "2.40.1")
    with pytest.raises(ClusterError, match=r"%pip install 'ray>=2\.60'"):
        ray_cluster(1)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"%pip install 'ray>=2\.60'"):
        ray_cluster(1)


def broker_asks(body: dict[str, Any]) -> str:
    from portal_session.job_kernels.broker_client import Broker, BrokerError

    with pytest.raises(BrokerError) as refused:
        Broker().ask("POST", "/clusters", json.loads(json.dumps(body)))
    return str(refused.value)


def test_outside_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(broker.VARIABLE, "")
    with pytest.raises(ClusterError, match="only be"):
        ray_cluster(1)
