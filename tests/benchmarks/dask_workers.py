"""Time until a notebook has its Dask workers, compared with dask-jobqueue in the same kernel."""

from __future__ import annotations

import statistics

from .cluster import Cluster, wait_for
from .notebook import job_count, kernel_with, run_cell
from .report import Row

WORKERS, TURNS = 8, 3
WHAT = f"{WORKERS} Dask workers ready, from a notebook"
MORE = 0.5  # seconds than the peer
_PACKAGES = ("distributed", "dask-jobqueue")
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
    own, peer = [], []
    with kernel_with(cluster, *_PACKAGES) as kernel:
        run_cell(kernel, _IMPORTS)
        for _ in range(TURNS):
            for line, times in ((_OWN, own), (_PEER, peer)):
                shown = run_cell(kernel, _TIMED.format(cluster=line, workers=WORKERS))
                times.append(float(shown.split()[-1]))
                wait_for("the workers' end", lambda: job_count(cluster) == 1, 60)
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
