"""Worker of a notebook's cluster: a replica that connects to the scheduler, or the head, in that
notebook.

The job opens no port for the Hub, and the Hub sees no server. The keys of the cluster are in its
record in the home (portal_session/clusters/record.py).
"""

from __future__ import annotations

import json
from typing import Annotated, Self

from pydantic import Field, StringConstraints

from portal.launch.kinds.kind import KindWords
from portal.models.session.replica_set import ReplicaSet
from portal.models.space import Space
from portal.work.replicas.kind import ReplicaKind


class ClusterWorker(ReplicaKind):
    """Base of workers. ``session``: the job of the session that has the cluster and ends
    it, "" for a kept one; ``seconds``: the time limit of the worker's job, 0 for an unknown one."""

    module = "portal_session.clusters.starter"
    of_portal = ReplicaKind.of_portal | {"seconds"}
    words = KindWords(
        noun="worker",
        program="worker",
        shut_down="The worker has ended: its cluster was closed, or its time was nearly over.",
        longer="Choose a longer time limit for the workers next time.",
    )

    session: Annotated[
        str,
        StringConstraints(pattern=r"^[0-9]{0,20}$"),
        Field(description="The number of a job"),
    ] = ""
    seconds: int = 0

    @classmethod
    def not_offered(cls, space: Space) -> str:
        if space.replicas:
            return ""
        return (
            f"Clusters are not offered in the sessions of a {space.noun}. Launch a session of your "
            "own for one."
        )

    def within(self, seconds: int | None) -> Self:
        return self.model_copy(update={"seconds": seconds or 0})

    def variables(self) -> dict[str, str]:
        cluster = {"id": self.id, "number": self.number, "seconds": self.seconds}
        return {**super().variables(), "PORTAL_CLUSTER": json.dumps(cluster)}


class DaskWorker(ClusterWorker):
    """Worker of a Dask cluster."""

    name = "dask-worker"
    title = "a Dask worker"
    option = "dask"
    prefix = "dask"


class RayWorker(ClusterWorker):
    """Worker of a Ray cluster."""

    name = "ray-worker"
    title = "a Ray worker"
    option = "ray"
    prefix = "ray"


KINDS: tuple[type[ClusterWorker], ...] = (DaskWorker, RayWorker)


def session_of(cluster: ReplicaSet) -> str | None:
    """Return the job of the session that has a cluster; None for a replica set that is none."""
    for kind in KINDS:
        if cluster.work == kind.name:
            return str(cluster.options.get(kind.option, {}).get("session", ""))
    return None
