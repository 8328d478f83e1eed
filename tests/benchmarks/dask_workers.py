"""Time until a notebook has its Dask workers, compared with dask-jobqueue in the same kernel."""

from __future__ import annotations

import statistics

from tests.support.demo.hub_client import Person
from tests.support.demo.notebook_kernel import NotebookKernel

from .cluster import Cluster, NotMeasured, wait_for
from .report import Row

WORKERS, TURNS = 8, 3
WHAT = f"{WORKERS} Dask workers ready, from a notebook"
WHO = "ada"
MORE = 0.5  # seconds than the peer
_PACKAGES = "%pip install -q distributed dask-jobqueue"
_IMPORTS = "import time; from dask_jobqueue import SLURMCluster; from portal_cluster import dask"
_TIMED = """
began = time.perf_counter()
cluster = {cluster}
client = cluster.get_client()
client.wait_for_workers({workers}, timeout=120)
seconds = time.perf_counter() - began
client.close()
cluster.close()
print(seconds)
"""
_OWN = f"dask({WORKERS}, cpus=1, memory='400M', time='0:20:00')"
_PEER = (
    "SLURMCluster(cores=1, processes=1, memory='400MB', walltime='00:20:00', "
    f"n_workers={WORKERS}, log_directory='/tmp')"
)


def measure(cluster: Cluster) -> list[Row]:
    """Return the row. dask-jobqueue is as it comes: its workers have a nanny each, and no TLS."""
    person = Person(str(cluster.state["url"]), WHO)
    if not person.logged_in:
        raise NotMeasured(f"{WHO} could not log in")
    answer = person.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    if answer.status_code not in (201, 202):
        raise NotMeasured(f"the launch was refused: {answer.text}")
    try:
        person.wait_ready()
        kernel = NotebookKernel.start(person)
        _run(kernel, _PACKAGES)
        kernel.ask("restart")
        _run(kernel, _IMPORTS)
        own, peer = [], []
        for _ in range(TURNS):
            for line, times in ((_OWN, own), (_PEER, peer)):
                shown = _run(kernel, _TIMED.format(cluster=line, workers=WORKERS))
                times.append(float(shown.split()[-1]))
                wait_for("the workers' end", lambda: _jobs(cluster) == 1, 60)
        kernel.leave()
    finally:
        person.stop()
    ours, theirs = statistics.median(own), statistics.median(peer)
    return [
        Row(
            WHAT,
            ours,
            "s",
            "dask-jobqueue's SLURMCluster in the same kernel",
            theirs,
            goal=f"at most peer + {MORE} s",
            met=ours <= theirs + MORE,
        )
    ]


def _run(kernel: NotebookKernel, code: str) -> str:
    ran = kernel.run(code, 300)
    if ran.status != "ok":
        raise NotMeasured(f"a cell failed: {ran.error}")
    return ran.printed


def _jobs(cluster: Cluster) -> int:
    """Return how many jobs the user has, the session's included."""
    return len(cluster.run("squeue", "-h", "-u", WHO, "-o", "%i").split())
