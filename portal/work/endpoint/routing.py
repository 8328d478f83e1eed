"""Routing: which part of the requests each replica gets. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .handover import Replica, ReplicaState

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
