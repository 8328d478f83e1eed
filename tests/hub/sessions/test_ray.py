"""Ray clusters of a notebook, on the demo's real Slurm. With a played one:
tests/integration/kernels/test_ray_cluster.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import nothing_left, squeue
from notebook_kernel import NotebookKernel

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
MADE = """
import time
from portal_cluster import ray
cluster = ray(2, cpus=1, memory="600M", time="0:10:00")
ray = cluster.connect()
while len(cluster.workers()) < 2: time.sleep(0.2)
print(cluster)
"""
WORK = """
@ray.remote
def square(n):
    time.sleep(0.2)
    return n * n

first = set(cluster.workers())
futures = [square.remote(n) for n in range(100)]
while not first - set(cluster.workers()): time.sleep(0.5)
print(ray.get(futures, timeout=120) == [n * n for n in range(100)])
"""
TRIED = """
import socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2"])
host, port = sys.argv[1].split(":")
if sys.argv[2:]:
    context.load_cert_chain(f"{sys.argv[2]}/certificate.pem", f"{sys.argv[2]}/key.pem")
with context.wrap_socket(socket.create_connection((host, int(port)))) as connection:
    connection.settimeout(10)
    print("let in" if connection.recv(1000) else "refused")
"""


@pytest.fixture
def kernel(demo: Any, person: Callable[[str], Person]) -> Iterator[NotebookKernel]:
    """Kernel of ada's, in whose environment Ray was installed."""
    ada = person("ada")
    ada.stop()
    nothing_left(demo, "ada")
    answer = ada.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    kernel = NotebookKernel.start(ada)
    ran = kernel.run("import importlib.util as u; print(u.find_spec('ray') is None)")
    if ran.printed == "True\n":
        ran = kernel.run("from portal_cluster import ray; ray(2)")
        assert "%pip install 'ray>=2.60', and restart the kernel." in ran.error
        assert kernel.run("%pip install -q 'ray>=2.60'", 300).status == "ok"
        kernel.ask("restart")
    yield kernel
    kernel.leave()
    ada.stop()
    nothing_left(demo, "ada")


def workers(demo: Any) -> list[str]:
    """Return the ids of the jobs of ada's workers, by their numbers."""
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED"
    rows = squeue(demo, "--user=ada", states, "--format=%i|%k").splitlines()
    return [row.split("|")[0] for row in sorted(rows, key=lambda r: r[::-1]) if ":ray-" in row]


def ok(kernel: NotebookKernel, code: str, seconds: float = 200) -> str:
    ran = kernel.run(code, seconds)
    assert (ran.status, ran.error) == ("ok", ""), ran
    return ran.printed


def test_no_task_is_lost_and_a_stranger_is_refused(demo: Any, kernel: NotebookKernel) -> None:
    printed = ok(kernel, MADE)  # the first import of Ray names packages that it would like
    assert printed.endswith("<RayCluster 2 of 2 workers>\n"), printed
    (item,) = Caller(demo.url, "ada").get("replica-sets").json()["items"]
    assert (item["work"], item["replicas"], len(item["running"])) == ("ray-worker", 2, 2)
    assert ok(kernel, "print(ray.cluster_resources()['CPU'])") == "2.0\n"

    cell = kernel.send(WORK)
    demo.run(["scancel", workers(demo)[0]], user="ada")
    ran = kernel.wait(cell, 200)
    assert ran.status == "ok" and ran.printed.endswith("True\n"), ran  # Ray says what was lost
    wait_until("it is replaced", lambda: len(workers(demo)) == 2, 60)

    address = ok(kernel, "print(cluster.address)").strip()
    python = ok(kernel, "import sys; print(sys.executable)").strip()
    folder = ok(kernel, "print(cluster._about['folder'])").strip()
    token = f"{folder}/token"
    own = demo.run([python, "-c", TRIED, address, folder], user="ada")
    assert own.stdout == "let in\n"
    tried = demo.run([python, "-c", TRIED, address], user="barbara", check=False)
    assert "let in" not in tried.stdout and ("refused" in tried.stdout or "ssl" in tried.stderr)
    read = demo.run(["cat", token], user="barbara", check=False)
    assert read.returncode != 0 and "Permission denied" in read.stderr
    secret = ok(kernel, f"print(open({token!r}).read())").split()[-1]
    listed = demo.run(["ps", "-eo", "args"], user="barbara").stdout
    assert "ray_node.py" in listed and len(secret) == 64 and secret not in listed

    ok(kernel, "cluster.close()")
    wait_until("its workers have ended", lambda: not workers(demo), 60)
    assert "ray_node.py" not in demo.run(["ps", "-u", "ada", "-o", "args"], user="ada").stdout
