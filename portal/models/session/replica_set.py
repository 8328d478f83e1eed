"""Replica sets: a number of sessions of one kind that the portal keeps running."""

from __future__ import annotations

from typing import Any

from .. import Frozen

MOST_REPLICAS = 100


class ReplicaSet(Frozen):
    """Replica set of a user. Times are Unix seconds."""

    user: str
    id: str
    work: str  # name of the kind, a `portal.work.replicas.kind.ReplicaKind`
    options: dict[str, Any]  # ``user_options`` of each replica, without what tells it apart
    replicas: int  # that should run; 0: all are stopped
    created_at: float
    problem: str = ""  # why a replica could not be launched last time, a sentence
