"""Clusters of Dask, as notebooks use them. Only what `cluster` imports needs Dask."""

from __future__ import annotations

from typing import Any

from ...portal_error import PortalError

_MISSING = (
    "This Python has no package 'distributed', the scheduler of Dask. Install it for this "
    "environment with %pip install distributed, and try again."
)


class ClusterError(PortalError):
    """Cluster that cannot be made or changed; the text says why."""

    def _render_traceback_(self) -> list[str]:  # called by IPython: the sentence is enough
        return [f"ClusterError: {self}"]


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


def check_number(workers: Any) -> None:
    """Raise ClusterError unless this can be a number of workers."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ClusterError(
            f"The number of workers must be a whole number from 0 on, not {workers!r}.", 400
        )
