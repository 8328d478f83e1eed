"""Scheduler of a kept cluster: a replica set of one job, so that the cluster outlives the notebook.

In the notebook's kernel it would end with that. It is a set of its own, beside its workers', since
it needs none of their GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field

from portal.launch.kinds.kind import KindWords
from portal.models.session.chosen_id import LONGEST_ID
from portal.models.session.replica_set import ReplicaSet
from portal.models.space import Space
from portal.work.replicas.kind import ReplicaKind

from .kind import DaskWorker

_ENDING = "-0"  # of a scheduler's id, after its cluster's
LONGEST_KEPT = LONGEST_ID - len(_ENDING)  # characters of a kept cluster's id


def scheduler_id(cluster: str) -> str:
    """Return the id of the replica set of a kept cluster's scheduler."""
    return cluster + _ENDING


class DaskScheduler(ReplicaKind):
    """Scheduler of a kept Dask cluster. ``seconds``: the time limit of its job, 0 for an unknown
    one."""

    name = "dask-scheduler"
    title = "a Dask scheduler"
    option = "dask_scheduler"
    prefix = "dasks"
    module = "portal_session.clusters.kept.starter"
    of_portal = ReplicaKind.of_portal | {"seconds"}
    words = KindWords(
        noun="scheduler",
        program="scheduler",
        shut_down="The scheduler has ended: its cluster was stopped, or it had no workers when its "
        "time was nearly over.",
        longer='Name a longer time with keep="…" next time.',
    )

    number: Annotated[int, Field(ge=0, le=0, strict=True)] = 0  # a cluster has one
    seconds: int = 0

    @classmethod
    def not_offered(cls, space: Space) -> str:
        """Refuse spaces: sessions of its user outside of them could change its workers, which would
        be charged to another account than its own."""
        return (
            f"Kept clusters are not offered in a {space.noun}: sessions outside of it could use "
            "them, too. Make one that ends with its notebook, without 'keep'."
        )

    @property
    def cluster(self) -> str:
        """Id of its cluster."""
        return self.id.removesuffix(_ENDING)

    def within(self, seconds: int | None) -> Self:
        return self.model_copy(update={"seconds": seconds or 0})

    def variables(self) -> dict[str, str]:
        cluster = {"id": self.cluster, "seconds": self.seconds}
        return {**super().variables(), "PORTAL_CLUSTER": json.dumps(cluster)}


def is_kept(workers: ReplicaSet, sets: Iterable[ReplicaSet]) -> bool:
    """Return True for the workers of a kept cluster whose scheduler is among ``sets``."""
    if workers.options.get(DaskWorker.option, {}).get("session"):
        return False
    scheduler = (workers.user, scheduler_id(workers.id), DaskScheduler.name)
    return any((each.user, each.id, each.work) == scheduler and each.replicas for each in sets)
