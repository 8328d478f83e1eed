"""Time from ``train(fn, nodes=2, ranks=2)`` in a cell to the first step of all ranks, compared with
``srun`` of the same function in the same environment."""

from __future__ import annotations

import contextlib
import re
import statistics
from collections.abc import Iterator

from portal.demo.daemons.ports import free_port
from tests.support.demo.hub_client import Person
from tests.support.demo.notebook_kernel import NotebookKernel

from .cluster import Cluster, NotMeasured, wait_for
from .report import Row

NODES, RANKS, TURNS = 2, 2, 5
WHAT = f"train() on {NODES} x {RANKS} ranks to the first step, from a notebook"
WHO = "ada"
MORE = 1.5  # seconds than the peer
# The step is an all-reduce by TCP: a library's import would take the same time on both sides.
_STEP = """
import os, socket, time

def step():
    rank = int(os.environ.get("RANK") or os.environ["SLURM_PROCID"])
    size = int(os.environ.get("WORLD_SIZE") or os.environ["SLURM_NTASKS"])
    host = os.environ.get("MASTER_ADDR") or os.environ["SLURM_LAUNCH_NODE_IPADDR"]
    address, total = (host, int(os.environ["MASTER_PORT"])), rank
    if rank == 0:
        with socket.create_server(address) as server:
            others = [server.accept()[0] for _ in range(size - 1)]
            total = sum(other.recv(1)[0] for other in others)
            for other in others:
                other.sendall(bytes([total]))
    else:
        for _ in range(1000):
            try:
                own = socket.create_connection(address)
                break
            except OSError:
                time.sleep(0.02)
        own.sendall(bytes([rank]))
        total = own.recv(1)[0]
    assert total == size * (size - 1) // 2
    return time.time()
"""
_BY_HAND = "\nend = step()\nif os.environ['SLURM_PROCID'] == '0':\n    print('END', end)\n"
_PREPARED = """
import sys, time
from pathlib import Path
from portal_train import train
{step}
Path.home().joinpath("step.py").write_text({by_hand!r})
print(sys.executable)
"""
_TIMED = f"""
began = time.time()
print("SECONDS", train(step, nodes={NODES}, ranks={RANKS}, cpus={RANKS}, gpus=0, memory="512M",
    partition="cpu", time="0:10:00") - began)
"""
_SRUN = (
    'cd && date "+BEGAN %s.%N" && exec srun --partition=cpu --nodes={nodes} '
    "--ntasks-per-node={ranks} --cpus-per-task=1 --mem=512M --time=10 {python} step.py"
)


def measure(cluster: Cluster) -> list[Row]:
    """Return the row: medians of turns in which both are started, one after the other."""
    own, peer = [], []
    with _kernel(cluster) as kernel:
        prepared = _PREPARED.format(step=_STEP, by_hand=_STEP + _BY_HAND)
        python = _run(kernel, prepared).strip()
        for turn in range(TURNS + 1):
            shown = _run(kernel, _TIMED)
            wait_for("the run's end", lambda: _jobs(cluster) == 1, 60)
            script = _SRUN.format(nodes=NODES, ranks=RANKS, python=python)
            argv = ["env", f"MASTER_PORT={free_port()}", "sh", "-c", script]
            by_hand = cluster.running.run(argv, WHO, timeout=120).stdout
            wait_for("the step's end", lambda: _jobs(cluster) == 1, 60)
            if turn:  # the first fills caches, on both sides
                own.append(_number(shown, "SECONDS"))
                peer.append(_number(by_hand, "END") - _number(by_hand, "BEGAN"))
    print(f"  train(): {own} s; srun: {peer} s")
    ours, theirs = statistics.median(own), statistics.median(peer)
    return [
        Row(
            WHAT,
            ours,
            "s",
            "by hand with srun, in the same environment",
            theirs,
            goal=f"at most peer + {MORE} s",
            met=ours <= theirs + MORE,
        )
    ]


@contextlib.contextmanager
def _kernel(cluster: Cluster) -> Iterator[NotebookKernel]:
    """Kernel of a session in a virtual environment."""
    person = Person(str(cluster.state["url"]), WHO)
    if not person.logged_in:
        raise NotMeasured(f"{WHO} could not log in")
    answer = person.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    if answer.status_code not in (201, 202):
        raise NotMeasured(f"the launch was refused: {answer.text}")
    try:
        person.wait_ready()
        first = NotebookKernel.start(person)
        _run(first, "%pip install -q cloudpickle")
        first.shut_down()  # another one finds the package
        kernel = NotebookKernel.start(person)
        yield kernel
        kernel.leave()
    finally:
        person.stop()


def _run(kernel: NotebookKernel, code: str) -> str:
    ran = kernel.run(code, 300)
    if ran.status != "ok":
        raise NotMeasured(f"a cell failed: {ran.error}")
    return ran.printed


def _number(text: str, word: str) -> float:
    found = re.search(rf"^{word} ([0-9.]+)$", text, re.MULTILINE)
    if found is None:
        raise NotMeasured(f"no {word} in: {text}")
    return float(found[1])


def _jobs(cluster: Cluster) -> int:
    """Return how many jobs the user has, the session's included."""
    return len(cluster.run("squeue", "-h", "-u", WHO, "-o", "%i").split())
