"""Handover: which replicas of an endpoint are launched, drained and retired. No I/O.

A replica is a replica set of one, which is launched once: its successor is another set. So the
two overlap without sharing a number, each has the version it was launched with, and the
reconciler need not know that one takes the other's place. The set of a replica that is retired
wants none, so the reconciler stops what is left of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

MARGIN = 60.0  # seconds before the time limit at which a successor should answer at the latest
SETTLE = 3.0  # seconds after which the gateway sends nothing more to a replica that drains
_PERCENTILE = 0.9


class ReplicaState(StrEnum):
    """State of a replica."""

    WAITING = "waiting"  # its job waits
    LOADING = "loading"  # its job runs, the example was not answered yet
    READY = "ready"  # it has answered the example
    DRAINING = "draining"  # it gets no new requests
    ENDED = "ended"


class Replica(NamedTuple):
    """Replica as decisions need it. ``successor_of``: the id of the replica whose place it takes,
    "" for none; ``in_flight``: requests that it answers, None while the gateway does not say. Times
    are Unix seconds, None: unknown or not yet."""

    id: str
    version: int
    state: ReplicaState
    successor_of: str = ""
    started_at: float | None = None
    ends_at: float | None = None
    draining_at: float | None = None
    in_flight: int | None = None


class Launch(NamedTuple):
    """Replica to launch, in the place of ``successor_of``, "" for nobody's."""

    version: int
    successor_of: str = ""


class Steps(NamedTuple):
    """Replicas to launch; ids of those that get no new requests from now on, and of those whose job
    is told to end."""

    launch: tuple[Launch, ...] = ()
    drain: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()


def percentile(values: Sequence[float], part: float = _PERCENTILE) -> float | None:
    """Return the smallest of the values that ``part`` of them do not exceed; None without any."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * part // 1) - 1)] if ordered else None


def launch_at(replica: Replica, load: float, wait: float) -> float | None:
    """Return when the successor of a replica is launched (Unix seconds); None: never. ``load``:
    seconds from the start of its job to its first answer, ``wait``: seconds in the queue. It is not
    before the middle of the job, or jobs that are shorter than that would chase each other."""
    if replica.started_at is None or replica.ends_at is None:
        return None
    middle = (replica.started_at + replica.ends_at) / 2
    return max(middle, replica.ends_at - load - wait - MARGIN)


def steps(
    wanted: Mapping[int, int],
    replicas: Sequence[Replica],
    now: float,
    *,
    load: float,
    wait: float,
    longest: float,
) -> Steps:
    """Return what is to be done at ``now`` (Unix seconds). ``wanted``: the number of replicas by
    version; ``load`` and ``wait``: as in `launch_at`; ``longest``: seconds for which a replica
    drains at most."""
    living = [replica for replica in replicas if replica.state is not ReplicaState.ENDED]
    taking = {each.id: each for each in living if each.state is not ReplicaState.DRAINING}
    successors = {
        each.successor_of: each for each in taking.values() if each.successor_of in taking
    }
    # A successor counts once its predecessor has gone.
    heads = [each for each in taking.values() if each.successor_of not in taking]
    launch: list[Launch] = []
    drain: list[str] = []
    retire = [replica.id for replica in replicas if replica.state is ReplicaState.ENDED]
    retire += [each.id for each in living if _drained(each, now, longest)]
    surplus = _surplus(wanted, heads)
    for head in heads:
        successor = successors.get(head.id)
        if head.id in surplus:
            (drain if head.state is ReplicaState.READY else retire).append(head.id)
            if successor is not None:
                retire.append(successor.id)
        elif successor is None:
            at = launch_at(head, load, wait)
            if at is not None and now >= at and wanted.get(head.version, 0):
                launch.append(Launch(head.version, head.id))
        elif successor.state is ReplicaState.READY:
            (drain if head.state is ReplicaState.READY else retire).append(head.id)
    for version, number in wanted.items():
        missing = number - sum(head.version == version for head in heads)
        launch += [Launch(version)] * max(0, missing)
    return Steps(tuple(launch), tuple(drain), tuple(retire))


def _drained(replica: Replica, now: float, longest: float) -> bool:
    if replica.state is not ReplicaState.DRAINING or replica.draining_at is None:
        return False
    seconds = now - replica.draining_at
    return seconds >= longest or (replica.in_flight == 0 and seconds >= SETTLE)


def _surplus(wanted: Mapping[int, int], heads: Sequence[Replica]) -> frozenset[str]:
    """Return the ids of replicas that are too many: of each version those first that do not answer
    yet, then those that end soonest. What answers stays until the wanted versions have as many
    replicas that answer as they should: a new version that never starts replaces nothing."""
    ready = {
        version: sum(head.version == version and head.state is ReplicaState.READY for head in heads)
        for version in wanted
    }
    complete = all(ready[version] >= number for version, number in wanted.items())
    surplus: set[str] = set()
    for version in {head.version for head in heads}:
        own = [head for head in heads if head.version == version]
        number = wanted.get(version, 0)
        own.sort(key=lambda head: (head.state is ReplicaState.READY, head.ends_at or 0.0, head.id))
        for head in own[: max(0, len(own) - number)]:
            if head.state is not ReplicaState.READY or complete or number:
                surplus.add(head.id)
    return frozenset(surplus)
