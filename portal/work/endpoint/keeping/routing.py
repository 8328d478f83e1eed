"""Routing: which part of the requests each replica gets, and what the gateway is told. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from portal.models.cluster.cluster import Job

from .facts import Seen
from .handover import Replica, ReplicaState
from .replicas import expected_at

_WHOLE = 10_000.0  # of all weights together, so that the smallest share of a large set is seen


def weights(
    replicas: Sequence[Replica], shares: Mapping[int, int], wanted: Mapping[int, int]
) -> dict[str, float]:
    """Return the weights of the replicas that answer, those that drain among them with 0, by id.

    ``shares``: parts of the traffic by version. Replicas of a version without a share stand in for
    those that a version ``wanted`` and does not have yet. A version without a replica leaves its
    share to the others.
    """
    ready = [replica for replica in replicas if replica.state is ReplicaState.READY]
    found = Counter(replica.version for replica in ready)
    former = [replica for replica in ready if not shares.get(replica.version, 0)]
    parts: dict[str, float] = {}
    left = 0.0
    for version, share in shares.items():
        number = found[version]
        there = min(1.0, number / max(1, wanted.get(version, 1))) if former else 1.0
        left += share * (1 - there)
        for replica in ready:
            if share > 0 and replica.version == version:
                parts[replica.id] = share * there / number
    for replica in former:
        parts[replica.id] = left / len(former)
    whole = sum(parts.values())
    given = {id_: _WHOLE * part / whole if whole else 0.0 for id_, part in parts.items()}
    draining = (each.id for each in replicas if each.state is ReplicaState.DRAINING)
    return {**dict.fromkeys(draining, 0.0), **given}


def routes(
    seen: Seen,
    shares: Mapping[int, int],
    wanted: Mapping[int, int],
    addresses: Mapping[str, str],
    jobs: Mapping[str, Job | None],
    refused: Collection[str],
    people: Collection[str],
    now: float,
) -> dict[str, Any]:
    """Return what the gateway is told of an endpoint at ``now`` (Unix seconds). ``addresses`` and
    ``jobs`` are those of its replicas, by id; those ``refused`` a launch are not expected.
    ``people``: members of its projects, who may use it."""
    endpoint = seen.endpoint
    weight = weights(seen.replicas, shares, wanted)
    told = [
        {
            "id": row.id,
            "address": addresses[row.id],
            "certificate": row.certificate,
            "weight": weight[row.id],
            "draining": row.draining_at is not None,
            "version": row.version,
        }
        for row in seen.rows
        if row.id in weight and addresses[row.id] and row.ready_at is not None
    ]
    newest = max((number for number, share in shares.items() if share), default=0)
    version = seen.versions.get(newest)
    coming = [replica for replica in seen.replicas if replica.id not in refused]
    return {
        "owner": endpoint.user,
        "users": sorted({*endpoint.users, *people}),
        "groups": list(endpoint.groups),
        "everyone": endpoint.everyone,
        "paths": list(version.paths) if version is not None else [],
        "limits": endpoint.limits.model_dump(),
        "expected": expected_at(coming, _starts(seen, jobs), now, seen.load),
        "replicas": told,
    }


def _starts(seen: Seen, jobs: Mapping[str, Job | None]) -> dict[str, float]:
    """Return when waiting jobs are expected to start: by Slurm, or by the queue's times."""
    starts = {}
    for row in seen.rows:
        job = jobs[row.id]
        known = job.start_time if job is not None else None
        starts[row.id] = known if known is not None else row.created_at + seen.wait
    return starts
