"""Kernels in jobs of their own, compared with the same kernel by ``srun`` and in the session."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from jupyter_client import BlockingKernelClient

from portal.demo.daemons.ports import free_port
from portal.launch.container import session_command
from portal.models.session.resources import Resources
from tests.support.demo.hub_client import Person
from tests.support.demo.notebook_kernel import NotebookKernel
from tests.support.demo.terminal import session_token

from .cluster import PARTITION, PEOPLE, Cluster, NotMeasured, wait_for
from .lab import shipped, wait_for_none
from .report import Row

WHAT = "A kernel in a job of its own"
WHO = "ada"
SPEC = "job-jupyterlab-python3-t4"
TIMES, STARTS = 5, 15
CELLS = 200
LINES = 100  # of a megabyte each
_PRINT = f"for _ in range({LINES}): print('x' * 999_999)"
PATIENCE = 60.0  # seconds
WAITING, EACH = 50, 8  # kernels that wait, of one person
SETTLE, WATCHED = 10.0, 60.0  # seconds


@contextlib.contextmanager
def _srun(cluster: Cluster) -> Iterator[BlockingKernelClient]:
    """Start the kernel with ``srun``, and yield a client that is connected to it."""
    environment, home = shipped(cluster), f"{cluster.state['homes']}/{WHO}"
    file = Path(home) / "kernel-by-hand.json"
    client = BlockingKernelClient()
    ports = ("shell", "iopub", "stdin", "control", "hb")
    info = {f"{name}_port": free_port() for name in ports}
    info |= {"ip": "127.0.0.1", "transport": "tcp", "key": "by-hand"}
    file.write_text(json.dumps({**info, "signature_scheme": "hmac-sha256"}))
    shutil.chown(file, cluster.uid(WHO))
    resources = Resources(gpus=1)
    argv = ["srun", "--quiet", "--partition=gpu", "--gres=gpu:t4:1", "--job-name=by-hand"]
    argv += session_command(
        environment,
        resources,
        home=home,
        apptainer=cluster.state["apptainer"],
        server=(environment.python or "python3", "-m", "ipykernel_launcher", "-f", str(file)),
    )
    process = subprocess.Popen(
        cluster.running.command(argv, WHO), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        client.load_connection_file(str(file))
        client.start_channels()
        yield client
    finally:
        client.stop_channels()
        process.send_signal(signal.SIGTERM)
        cluster.run("scancel", f"--user={WHO}", "--name=by-hand", check=False)
        process.wait()
        file.unlink()


def _by_hand(cluster: Cluster) -> float:
    """Return the seconds from ``srun`` to the answer of the first cell."""
    began = time.monotonic()
    with _srun(cluster) as client:
        client.execute("1")  # ZeroMQ keeps it until the kernel is there
        client.get_shell_msg(timeout=PATIENCE)
        return time.monotonic() - began


def _picked(person: Person) -> float:
    """Return the seconds from the choice of the kernel to the answer of its first cell.

    slurmctld looks for batch jobs once a second, and for those of srun at once. As the starts would
    keep step with that second, each comes at a random moment of it.
    """
    time.sleep(random.random())
    began = time.monotonic()
    kernel = NotebookKernel.start(person, SPEC)
    try:
        if kernel.run("1", PATIENCE).status != "ok":
            raise NotMeasured("the kernel's first cell failed")
        return time.monotonic() - began
    finally:
        kernel.leave()
        kernel.shut_down()


# Run in a third kernel of the session, as its server's rate limit cuts a hundred megabytes short.
# The kernels take turns: what else the machine does then slows each of them.
_PROBE = f"""
import json, statistics, time
from jupyter_client import BlockingKernelClient
from jupyter_core.paths import jupyter_runtime_dir
def connected(id):
    client = BlockingKernelClient(connection_file=jupyter_runtime_dir() + f"/kernel-{{id}}.json")
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    return client
def trip(client):
    began = time.monotonic()
    client.execute("", store_history=False)
    client.get_shell_msg(timeout=10)
    return 1000 * (time.monotonic() - began)
def rate(client):
    size, began = 0, time.monotonic()
    def count(message):
        nonlocal size
        size += len(message["content"].get("text", ""))
    client.execute_interactive({_PRINT!r}, timeout=120, output_hook=count)
    assert size == {LINES} * 1_000_000, size
    return {LINES} / (time.monotonic() - began)
clients = [connected(id) for id in KERNELS]
trips = [[trip(client) for client in clients] for _ in range({CELLS})]
rates = [[rate(client) for client in clients] for _ in range({TIMES})]
for client in clients:
    client.stop_channels()
print(json.dumps([[statistics.median(turn) for turn in zip(*turns)] for turns in (trips, rates)]))
"""


def _speed(
    probe: NotebookKernel, kernels: tuple[NotebookKernel, NotebookKernel]
) -> tuple[list[float], list[float]]:
    """Return the median times of an empty cell in milliseconds, and the medians of the megabytes
    of output a second, of each kernel."""
    for kernel in kernels:
        kernel.run("1")
    ran = probe.run(_PROBE.replace("KERNELS", json.dumps([kernel.id for kernel in kernels])), 180)
    if ran.status != "ok":
        raise NotMeasured(ran.error)
    trips, rates = json.loads(ran.printed)
    return trips, rates


def _restart(kernel: NotebookKernel) -> float:
    began = time.monotonic()
    kernel.ask("restart")
    kernel.run("1")
    return time.monotonic() - began


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows: to the first answer, an empty cell, output, a restart."""
    person = Person(str(cluster.state["url"]), WHO)
    person.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    person.wait_ready()
    try:
        wait_for("the kernels to be offered", lambda: SPEC in _specs(person), PATIENCE)
        rows = _rows(cluster, person)
    finally:
        person.stop()
        wait_for_none(cluster)
    return [*rows, _waiting(cluster)]


def _waiting(cluster: Cluster) -> Row:
    """Return the row of fifty kernels that wait for GPUs: requests of the Hub's account."""
    url = str(cluster.state["url"])
    people = [Person(url, f"student{number:02}") for number in range(1, 1 + -(-WAITING // EACH))]
    try:
        for person in people:
            person.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
        for person in people:
            person.wait_ready()
        block = ["sbatch", f"--partition={PARTITION}", "--nodelist=gpu[01-06]", "--exclusive"]
        cluster.running.run([*block, "--output=/dev/null", "--wrap=sleep 600"], PEOPLE[-1])
        wait_for("the job that takes the GPUs", lambda: cluster.jobs("R") == 1, 30)
        time.sleep(SETTLE)
        before = _rate(cluster)
        tokens = [session_token(person) for person in people]
        for number in range(WAITING):
            _ask_for_kernel(url, tokens[number // EACH], f"{number:012x}")
        wait_for("the kernels to wait", lambda: _pending(cluster) == WAITING, PATIENCE)
        time.sleep(SETTLE)
        rate = _rate(cluster)
    finally:
        for person in people:
            for server in person.api("GET", f"/users/{person.name}").json()["servers"]:
                person.stop(server)
        cluster.clear()
    return Row(
        f"{WHAT}: {WAITING} that wait, requests of Hub and service to slurmctld",
        rate,
        "per s",
        "without them",
        before,
        goal="at most 1",
        met=round(rate, 2) <= 1,
    )


def _rate(cluster: Cluster) -> float:
    """Return the requests to slurmctld per second of the account of Hub and service."""
    began, before = time.monotonic(), cluster.requests_of("portal")
    time.sleep(WATCHED)
    return (cluster.requests_of("portal") - before) / (time.monotonic() - began)


def _ask_for_kernel(url: str, token: str, id: str) -> None:
    """Ask for a kernel as the session's server does."""
    body = {"id": id, "kernel": "python3", "environment": "jupyterlab", "gpus": 1}

    def asked() -> bool:
        answer = httpx.post(
            f"{url}/services/portal/api/v1/session/kernels",
            headers={"Authorization": f"token {token}"},
            json={**body, "gpu_type": "t4"},
            timeout=60,
        )
        if answer.status_code not in (202, 429, 503):
            raise NotMeasured(f"a kernel was refused: {answer.status_code} {answer.text}")
        return answer.status_code == 202

    wait_for("a kernel to be accepted", asked, PATIENCE)


def _pending(cluster: Cluster) -> int:
    return len(cluster.run("squeue", "-h", "-tPD", "-o", "%i").split())


def _specs(person: Person) -> dict[str, object]:
    return dict(person.session("GET", "api/kernelspecs").json()["kernelspecs"])


def _rows(cluster: Cluster, person: Person) -> list[Row]:
    by_hand, picked = in_turn(lambda: _by_hand(cluster), lambda: _picked(person), STARTS)
    probe, local = NotebookKernel.start(person), NotebookKernel.start(person)
    remote = NotebookKernel.start(person, SPEC)
    try:
        (trip, here), (rate, local_rate) = _speed(probe, (remote, local))
        restarts = [_restart(remote) for _ in range(TIMES)]
    finally:
        for kernel in (probe, local, remote):
            kernel.leave()
            kernel.shut_down()
    peer = "a kernel in the session"
    return [
        Row(
            f"{WHAT}: picked to first answer, median of {STARTS}",
            picked,
            "s",
            "srun by hand",
            by_hand,
            goal="at most peer + 0.7 s",
            met=picked <= by_hand + 0.7,
        ),
        Row(
            f"{WHAT}: an empty cell, median of {CELLS}",
            trip,
            "ms",
            peer,
            here,
            goal="at most peer + 5 ms",
            met=trip <= here + 5,
        ),
        Row(
            f"{WHAT}: {LINES} MB of output",
            rate,
            "MB per s",
            peer,
            local_rate,
            goal="at least 60 % of peer",
            met=rate >= 0.6 * local_rate,
        ),
        Row(
            f"{WHAT}: restart in the same job to first answer",
            statistics.median(restarts),
            "s",
            goal="under 2",
            met=statistics.median(restarts) < 2,
        ),
    ]


def in_turn(
    peer: Callable[[], float], ours: Callable[[], float], times: int = TIMES
) -> tuple[float, float]:
    """Return the medians of both, which take turns after one of each for the caches."""
    peer()
    ours()
    pairs = [(peer(), ours()) for _ in range(times)]
    print("  by hand and portal: " + ", ".join(f"{a:.2f} {b:.2f}" for a, b in pairs), flush=True)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
