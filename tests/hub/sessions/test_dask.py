"""Dask clusters of a notebook, on the demo's real Slurm. With a played one:
tests/integration/kernels/test_dask_cluster.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import nothing_left, squeue
from notebook_kernel import NotebookKernel

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
MADE = """
from portal_cluster import dask
cluster = dask({workers}, cpus=1, memory="400M", time="{time}")
client = cluster.client()
client.wait_for_workers({workers}, timeout=180)
print(cluster)
"""
JOBS = "sorted(worker['name'] for worker in client.scheduler_info()['workers'].values())"
WORK = """
import time
from distributed import wait
replaced, values, futures = set(), 0, []
first = set({jobs})
while len(replaced) < {replaced} or len(futures) <= 100:
    done = client.map(lambda n: (time.sleep(0.1), n)[1], range(values, values + 20))
    values, futures = values + 20, futures + done
    wait(done)
    replaced = first - set({jobs})
    if values == 20:
        print("works", flush=True)
print(client.gather(futures) == list(range(values)))
"""


@pytest.fixture(scope="module")
def session(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada, with a session on CPUs whose user has installed Dask."""
    ada = person("ada")
    ada.stop()
    nothing_left(demo, "ada")
    answer = ada.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    yield ada
    ada.stop()
    nothing_left(demo, "ada")


@pytest.fixture
def kernel(demo: Any, session: Person) -> Iterator[NotebookKernel]:
    kernel = NotebookKernel.start(session)
    ran = kernel.run("import importlib.util as u; print(u.find_spec('distributed') is None)")
    if ran.printed == "True\n":
        ran = kernel.run("from portal_cluster import dask; dask(2)")
        assert "%pip install distributed, and restart the kernel." in ran.error
        assert kernel.run("%pip install -q distributed", 300).status == "ok"
        kernel.ask("restart")
    yield kernel
    kernel.leave()
    kernel.shut_down()
    wait_until("its workers have ended", lambda: not workers(demo), 60)


def workers(demo: Any) -> list[str]:
    """Return the ids of the jobs of ada's workers, by their numbers."""
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED"
    rows = squeue(demo, "--user=ada", states, "--format=%i|%k").splitlines()
    found = sorted(row.split("|")[::-1] for row in rows if ":dask-" in row)
    return [job_id for _, job_id in found]


def ok(kernel: NotebookKernel, code: str, seconds: float = 200) -> str:
    ran = kernel.run(code, seconds)
    assert (ran.status, ran.error) == ("ok", ""), ran
    return ran.printed


def test_workers_from_one_line(demo: Any, session: Person, kernel: NotebookKernel) -> None:
    printed = ok(kernel, MADE.format(workers=3, time="0:10:00"))
    shown = re.fullmatch(
        r"<DaskCluster 3 of 3 workers, 3 threads, /user/ada/(\S+)status>\n", printed
    )
    assert shown, printed
    total = "sum(client.gather(client.map(lambda n: n * n, range(100))))"
    assert ok(kernel, f"print({total})") == "328350\n"
    assert len(workers(demo)) == 3
    (item,) = Caller(demo.url, "ada").get("replica-sets").json()["items"]
    assert (item["work"], item["replicas"], len(item["running"])) == ("dask-worker", 3, 3)

    page = session.session("GET", f"{shown[1]}health")  # the first loads the proxy
    page = session.session("GET", f"{shown[1]}health")
    assert (page.status_code, page.text) == (200, "ok")
    ok(kernel, "cluster.scale(1)")
    wait_until("one worker is left", lambda: len(workers(demo)) == 1, 60)
    ran = kernel.run("cluster.scale(30)")
    assert ran.error == "A cluster on this site can have 10 workers at most, not 30."
    ran = kernel.run("cluster.adapt(5, 3)")
    assert "the minimum must not be larger than the maximum" in ran.error
    ran = kernel.run("dask(1, gpus=99)")
    assert ran.status == "error" and "GPU" in ran.error
    ran = kernel.run("dask(1, cpu=1)")
    assert ran.status == "error" and "cpu" in ran.error
    assert len(workers(demo)) == 1


def test_work_goes_on_while_workers_end_and_are_replaced(
    demo: Any, session: Person, kernel: NotebookKernel
) -> None:
    """One is killed, and one ends as it does before its job's time is over; that it ends then is
    tests/integration/kernels/test_dask_cluster.py's, and that of ten minutes `make bench`'s."""
    ok(kernel, MADE.format(workers=2, time="0:02:00"))
    listed = demo.run(["ps", "-eo", "args"], user="ada").stdout
    lives = {int(life) for life in re.findall(r'dask_worker.py .*"lifetime": ([0-9]+)', listed)}
    assert lives == {105, 79}
    killed, ended = workers(demo)
    cell = kernel.send(WORK.format(jobs=JOBS, replaced=2))
    kernel.until_printed(cell, "works")
    demo.run(["scancel", "--signal=KILL", "--full", killed], user="ada")
    demo.run(["scancel", "--signal=TERM", "--full", ended], user="ada")
    ran = kernel.wait(cell, 75)  # before the time at which both would have ended
    assert (ran.status, ran.printed) == ("ok", "works\nTrue\n"), ran


def test_a_cluster_ends_with_its_kernel_or_on_a_page(
    demo: Any, session: Person, kernel: NotebookKernel
) -> None:
    ok(kernel, MADE.format(workers=2, time="0:10:00"))
    kernel.ask("restart")
    wait_until("its workers have ended", lambda: not workers(demo), 60)
    ada = Caller(demo.url, "ada")
    wait_until("it is deleted", lambda: not ada.get("replica-sets").json()["items"], 60)

    ok(kernel, MADE.format(workers=1, time="0:10:00"))
    (item,) = ada.get("replica-sets").json()["items"]
    assert ada.delete(f"replica-sets/{item['id']}").status_code == 200
    wait_until("its worker has ended", lambda: not workers(demo), 60)
    wait_until("the notebook knows", lambda: "closed" in ok(kernel, "print(cluster)"), 30)


def test_another_account_is_refused(demo: Any, session: Person, kernel: NotebookKernel) -> None:
    ok(kernel, MADE.format(workers=1, time="0:10:00"))
    address = ok(kernel, "print(cluster.scheduler_address)").strip()
    held = ok(kernel, "from pathlib import Path; print(*Path.home().glob('.portal/.clusters/*'))")
    python = ok(kernel, "import sys; print(sys.executable)").strip()
    code = (
        "import ssl, socket; context = ssl.create_default_context()\n"
        "context.check_hostname, context.verify_mode = False, ssl.CERT_NONE\n"
        f"host, port = {address!r}[6:].rsplit(':', 1)\n"
        "with context.wrap_socket(socket.create_connection((host, int(port)))) as connection:\n"
        "    print(connection.recv(10))"  # what is sent after the refusal fails by itself
    )
    tried = demo.run([python, "-c", code], user="barbara", check=False)
    assert tried.returncode != 0 and "certificate required" in tried.stderr.lower(), tried
    read = demo.run(["cat", held.strip()], user="barbara", check=False)
    assert read.returncode != 0 and "Permission denied" in read.stderr
    listed = demo.run(["ps", "-eo", "args"], user="barbara").stdout
    assert "dask_worker.py" in listed and "PRIVATE KEY" not in listed
    assert ok(kernel, "print(client.submit(pow, 2, 3).result())") == "8\n"
