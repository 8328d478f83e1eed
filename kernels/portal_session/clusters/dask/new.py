"""New cluster, for a Python that may lack Dask."""

from __future__ import annotations

from typing import Any

from ..error import ClusterError, check_number

_SHORTEST = 4  # characters of a name's beginning: "8" is a slip for 8
_MISSING = (
    "This Python has no package 'distributed', the scheduler of Dask. Install it for this "
    "environment with %pip install distributed, and restart the kernel."
)


def dask(workers: int | str = 0, keep: bool | str = False, **resources: Any) -> Any:
    """Return a new cluster with this number of ``workers``, each a job in this environment; or, by
    its name, a kept one.

    ``keep``: it outlives this kernel and session; a time limit is its scheduler's.
    ``resources`` of each worker: cpus=2, memory="4G", time="1:00:00", gpus=1, gpu_type="a100" and
    the other options of a launch. Raises ClusterError with a sentence.
    """
    name = workers if isinstance(workers, str) and len(workers) >= _SHORTEST else ""
    if name:
        if keep or resources:
            raise ClusterError("A cluster that is there already takes no other options.", 400)
    else:
        check_number(workers)
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ClusterError(_MISSING, 400) from None
    if name or keep:
        from .kept import connect, make

        return connect(name) if name else make(int(workers), keep, resources)
    from .cluster import DaskCluster

    return DaskCluster(int(workers), resources)
