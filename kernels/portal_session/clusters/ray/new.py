"""New cluster, for a Python that may lack Ray."""

from __future__ import annotations

from typing import Any

from ..error import ClusterError, check_number

_SINCE = (2, 60)
_MISSING = (
    "This Python has no package 'ray' of version 2.60 or newer. Install it for this environment "
    "with %pip install 'ray>=2.60', and restart the kernel."
)


def ray(workers: int = 0, **resources: Any) -> Any:
    """Return a new cluster with this number of ``workers``, each a job in this environment.

    ``resources`` of each worker: cpus=2, memory="4G", time="1:00:00", gpus=1, gpu_type="a100" and
    the other options of a launch. Raises ClusterError with a sentence.
    """
    check_number(workers)
    try:
        import ray as package

        version = tuple(int(part) for part in package.__version__.split(".")[:2])
    except (ImportError, AttributeError, ValueError):
        version = (0, 0)
    if version < _SINCE:
        raise ClusterError(_MISSING, 400)
    from .cluster import RayCluster

    return RayCluster(workers, resources)
