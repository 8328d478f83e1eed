"""Choices near the one on screen that may start earlier. Pure; whether they do is asked later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import PortalError
from ..models.cluster.cluster import ClusterSnapshot
from ..models.person import Person
from ..models.session.resources import Duration, Resources
from .partitions import Associations, allowed_partitions, choose_partition
from .policy import objections
from .request import LaunchRequest

_SHORTER = (14_400, 7_200, 3_600)  # seconds; jobs up to these are easily put in between


class Candidate(NamedTuple):
    """Nearby choice. ``kind``: the option that changes; ``changes``: the values to fill a form."""

    kind: str
    changes: dict[str, Any]
    resources: Resources


def candidates(
    request: LaunchRequest, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> list[Candidate]:
    """Return what the person might ask for instead, the least change of each kind first: fewer
    GPUs, another type that the environment runs on, another partition, a shorter time. Only what
    the policy allows."""
    allowed = []
    for candidate in _all(request, person, snapshot, associations):
        try:
            refused = objections(
                candidate.resources, request.environment, person, snapshot, associations
            )
        except PortalError:
            continue
        if not refused:
            allowed.append(candidate)
    return allowed


def _all(
    request: LaunchRequest, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> Iterator[Candidate]:
    asked = request.resources
    for number in range(asked.gpus - 1, 0, -1):
        yield Candidate("gpus", {"gpus": number}, asked.model_copy(update={"gpus": number}))
    if not asked.reservation:
        if asked.gpus:
            yield from _types(request, person, snapshot, associations)
        yield from _partitions(asked, person, snapshot, associations)
    if asked.time:
        for seconds in _SHORTER:
            if seconds < asked.time:
                shorter = Duration(seconds)
                changes = {"time": str(shorter)}
                yield Candidate("time", changes, asked.model_copy(update={"time": shorter}))


def _types(
    request: LaunchRequest, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> Iterator[Candidate]:
    asked = request.resources
    if asked.gpu_type is None:
        return  # any type is asked for already
    for name in _gpu_types(request.environment.gpu_types, snapshot):
        if name == asked.gpu_type:
            continue
        other = asked.model_copy(update={"gpu_type": name, "partition": None})
        partition = choose_partition(other, person, snapshot, associations)
        changes: dict[str, Any] = {"gpu_type": name}
        if partition != asked.partition:
            changes["partition"] = partition
        yield Candidate("gpu_type", changes, other.model_copy(update={"partition": partition}))


def _gpu_types(only: Sequence[str], snapshot: ClusterSnapshot) -> list[str]:
    pools = (pool for node in snapshot.nodes.values() for pool in (*node.gpus, *node.shares))
    types = {pool.type for pool in pools if pool.count}
    return sorted(types & set(only) if only else types)


def _partitions(
    asked: Resources, person: Person, snapshot: ClusterSnapshot, associations: Associations
) -> Iterator[Candidate]:
    for partition in allowed_partitions(person, snapshot, associations):
        if partition.name != asked.partition:
            other = {"partition": partition.name}
            yield Candidate("partition", other, asked.model_copy(update=other))
