"""Time from ``train(fn, nodes=2, ranks=2)`` in a cell to the first step of all ranks, compared with
``srun`` of the same function in the same environment."""

from __future__ import annotations

import statistics

from portal.demo.daemons.ports import free_port

from .cluster import Cluster, wait_for
from .notebook import WHO, job_count, kernel_with, number_in, run_cell
from .report import Row

NODES, RANKS, TURNS = 2, 2, 5
WHAT = f"train() on {NODES} x {RANKS} ranks to the first step, from a notebook"
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
    with kernel_with(cluster, "cloudpickle") as kernel:
        prepared = _PREPARED.format(step=_STEP, by_hand=_STEP + _BY_HAND)
        python = run_cell(kernel, prepared).strip()
        for turn in range(TURNS + 1):
            shown = run_cell(kernel, _TIMED)
            wait_for("the run's end", lambda: job_count(cluster) == 1, 60)
            script = _SRUN.format(nodes=NODES, ranks=RANKS, python=python)
            argv = ["env", f"MASTER_PORT={free_port()}", "sh", "-c", script]
            by_hand = cluster.running.run(argv, WHO, timeout=120).stdout
            wait_for("the step's end", lambda: job_count(cluster) == 1, 60)
            if turn:  # the first fills caches, on both sides
                own.append(number_in(shown, "SECONDS"))
                peer.append(number_in(by_hand, "END") - number_in(by_hand, "BEGAN"))
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
