"""List of a user's kept clusters, for a Python that may lack Dask."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...job_kernels.broker_client import Broker
from .. import error
from ..error import ClusterError

PATH = "/kept-clusters"


class KeptFacts(NamedTuple):
    """Kept cluster: ``workers`` should run, and ``running`` do."""

    name: str
    environment: str
    workers: int
    running: int
    problem: str


def clusters() -> list[KeptFacts]:
    """Return the user's kept clusters, oldest first. Raises ClusterError."""
    return [
        KeptFacts(item["id"], *(item[field] for field in KeptFacts._fields[1:]))
        for item in ask("GET", PATH)["items"]
    ]


def id_of(name: str) -> str:
    """Return the id of a kept cluster that ``name`` is the beginning of. Raises ClusterError."""
    names = [cluster.name for cluster in clusters()]
    fitting = [known for known in names if name and known.startswith(name.lower())]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(f"'{known}'" for known in names)
    if fitting:
        raise ClusterError(f"'{name}' is the beginning of several names: {listed}.", 400)
    have = f"You have {listed}" if names else "You have none"
    raise ClusterError(
        f"There is no kept cluster '{name}': it was stopped, or has ended without workers. {have}.",
        404,
    )


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask the session's server. Raises ClusterError."""
    return error.ask(Broker(), method, path, body)
