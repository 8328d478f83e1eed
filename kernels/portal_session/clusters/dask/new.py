"""New cluster, for a Python that may lack Dask."""

from __future__ import annotations

from typing import Any

from ..error import ClusterError, check_number

_MISSING = (
    "This Python has no package 'distributed', the scheduler of Dask. Install it for this "
    "environment with %pip install distributed, and restart the kernel."
)


def dask(workers: int = 0, **resources: Any) -> Any:
    """Return a new cluster with this number of ``workers``, each a job in this environment.

    ``resources`` of each worker: cpus=2, memory="4G", time="1:00:00", gpus=1, gpu_type="a100" and
    the other options of a launch. Raises ClusterError with a sentence.
    """
    check_number(workers)
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ClusterError(_MISSING, 400) from None
    from .cluster import DaskCluster

    return DaskCluster(workers, resources)
