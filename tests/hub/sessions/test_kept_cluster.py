"""A Dask cluster that outlives its session, on the demo's real Slurm. With a played one:
tests/integration/kernels/test_kept_cluster.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import nothing_left, squeue
from notebook_kernel import NotebookKernel

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
LAUNCH = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
MADE = """
from portal_cluster import dask
cluster = dask(2, keep="0:30:00", cpus=1, memory="400M", time="0:10:00")
client = cluster.client()
client.wait_for_workers(2, timeout=180)
client.publish_dataset(squares=client.map(lambda n: n * n, range(100)))
print(cluster.name)
"""
AGAIN = """
from portal_cluster import clusters, dask
(kept,) = clusters()
print(kept.name, kept.workers, kept.running)
cluster = dask(kept.name[:6])
client = cluster.client()
client.wait_for_workers(2, timeout=180)
print(sum(client.gather(client.get_dataset("squares"))))
"""


@pytest.fixture
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    ada = person("ada")
    ada.stop()
    nothing_left(demo, "ada")
    yield ada
    caller = Caller(demo.url, "ada")
    for item in caller.get("replica-sets").json()["items"]:
        caller.delete(f"replica-sets/{item['id']}")
    ada.stop()
    nothing_left(demo, "ada")


def in_session(ada: Person) -> NotebookKernel:
    """Return a kernel of a new session, with Dask."""
    answer = ada.launch(LAUNCH)
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    kernel = NotebookKernel.start(ada)
    kernel.install("distributed")
    return kernel


def ok(kernel: NotebookKernel, code: str, seconds: float = 240) -> str:
    ran = kernel.run(code, seconds)
    assert (ran.status, ran.error) == ("ok", ""), ran
    return ran.printed


def jobs(demo: Any) -> list[str]:
    """Return the names of the live jobs of ada's clusters."""
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"
    rows = squeue(demo, "--user=ada", states, "--format=%k").splitlines()
    return sorted(row for row in rows if ":dask" in row)


def test_a_kept_cluster_serves_a_later_session(demo: Any, ada: Person) -> None:
    first = in_session(ada)
    name = ok(first, MADE).split()[-1]  # on a full machine, it says first that it waits
    kept = jobs(demo)
    assert len(kept) == 3 and sum(":dasks-" in job for job in kept) == 1
    first.leave()
    ada.stop()
    assert jobs(demo) == kept, "it goes on without the session"

    second = in_session(ada)
    said = ok(second, AGAIN)
    assert said.splitlines() == [f"{name} 2 2", "328350"]
    health = f"portal/clusters/{name}/health"
    ada.session("GET", health)  # the first loads the proxy
    page = ada.session("GET", health)
    assert (page.status_code, page.text) == (200, "ok")

    where = (
        "import json, pathlib; kept = next(pathlib.Path.home().glob('.portal/.clusters/*.kept'))\n"
        "print(kept, json.loads(kept.read_text())['dashboard'])"
    )
    held, dashboard = ok(second, where).split()
    python = ok(second, "import sys; print(sys.executable)").strip()
    code = (
        "import ssl, socket; context = ssl.create_default_context()\n"
        "context.check_hostname, context.verify_mode = False, ssl.CERT_NONE\n"
        f"host, port = {dashboard!r}.rsplit(':', 1)\n"
        "with context.wrap_socket(socket.create_connection((host, int(port)))) as connection:\n"
        "    connection.sendall(b'GET /health HTTP/1.0\\r\\n\\r\\n'); print(connection.recv(1000))"
    )
    tried = demo.run([python, "-c", code], user="barbara", check=False)
    closed = tried.stdout == "b''\n" or "certificate required" in tried.stderr.lower()
    assert closed and "HTTP" not in tried.stdout, tried
    read = demo.run(["cat", held], user="barbara", check=False)
    assert read.returncode != 0 and "Permission denied" in read.stderr
    listed = demo.run(["ps", "-eo", "args"], user="barbara").stdout
    assert "dask_scheduler.py" in listed and "PRIVATE KEY" not in listed

    ok(second, "cluster.scale(1)")
    wait_until("one worker is left", lambda: len(jobs(demo)) == 2, 60)
    # As Stop on the Sessions page does: it ends the scheduler's set.
    stopped = Caller(demo.url, "ada").delete(f"replica-sets/{name}-0")
    assert stopped.status_code == 200, stopped.text
    wait_until("all jobs have ended", lambda: not jobs(demo), 90)
    wait_until("the notebook knows", lambda: "closed" in ok(second, "print(cluster)"), 30)
    ran = second.run(f"dask({name!r})")
    assert ran.error.startswith(f"There is no kept cluster '{name}'"), ran
    second.leave()
