"""Demand of a course's sessions on the cluster, and how many of them fit there at once."""

from __future__ import annotations

from collections.abc import Sequence

from portal.launch.partitions import choose_partition
from portal.models import Frozen
from portal.models.cluster.cluster import Association, ClusterSnapshot, Node
from portal.models.course.course import StoredCourse
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.models.words import count
from portal.slurm.parse.gres import UNNAMED


class Demand(Frozen):
    """Demand of a course. ``gpus``: wanted if all students use the default at once, ``most_gpus``:
    if each uses the maximum; ``gpus_there``: on usable nodes, ``gpus_free`` of them now;
    ``seats``: default sessions that fit at once; ``words``: all of it in a sentence."""

    students: int
    gpus: int
    most_gpus: int
    gpus_there: int
    gpus_free: int
    gpu_type: str
    seats: int
    words: str


def demand_of(stored: StoredCourse, students: int, snapshot: ClusterSnapshot) -> Demand:
    """Compute the demand of the course's default in the partition of its sessions, on the nodes it
    reserves."""
    course, each = stored.course, stored.course.default
    types = gpu_types(stored)
    named = course.reservation.partition or each.partition or _launched_in(stored, types, snapshot)
    nodes = [
        node
        for node in snapshot.nodes.values()
        if node.usable and (named is None or named in node.partitions)
    ]
    rooms = sorted((_seats(node, each, types) for node in nodes), reverse=True)
    reserved = course.reservation.nodes
    seats = sum(rooms[:reserved] if reserved else rooms)
    if each.nodes > 1:
        seats = min(seats, len([room for room in rooms if room])) // each.nodes
    pools = [pool for node in nodes for pool in node.gpus if not types or pool.type in types]
    total = sum(pool.count for pool in pools)
    awake = [pool for node in nodes if not node.asleep for pool in node.gpus]
    free = sum(max(0, pool.count - pool.used) for pool in awake if not types or pool.type in types)
    wanted = students * each.gpus * each.nodes
    most = max(wanted, students * course.largest.gpus * course.largest.nodes)
    words = "1 student needs" if students == 1 else f"{students} students need"
    words += f" {wanted or 'no'} {f'{types[0]} GPUs' if len(types) == 1 else 'GPUs'}"
    if most > wanted:
        words += f", {most} with the maximum resources"
    words += f"; the partition '{named}' has {total}" if named else f"; the cluster has {total}"
    if each.gpus:
        words += f", {free} of them free now"
    if reserved:
        on = count(reserved, "reserved node")
        words += f", and {count(seats, 'session')} fit on the {on} at once"
    elif seats < students:
        words += f", so {count(seats, 'session')} fit at once"
    return Demand(
        students=students,
        gpus=wanted,
        most_gpus=most,
        gpus_there=total,
        gpus_free=free,
        gpu_type=types[0] if len(types) == 1 else "",
        seats=seats,
        words=f"{words}.",
    )


def _launched_in(
    stored: StoredCourse, types: Sequence[str], snapshot: ClusterSnapshot
) -> str | None:
    """Return the partition in which sessions of a course that names none are launched now."""
    account, each = stored.course.account, stored.course.default
    rows = (Association(user="", account=account),) if account else None
    if each.gpus and len(types) == 1:
        each = each.model_copy(update={"gpu_type": types[0]})
    chosen = choose_partition(each, Person(name=""), snapshot, rows)
    usual = (partition.name for partition in snapshot.partitions.values() if partition.default)
    return chosen or next(usual, None)


def gpu_types(stored: StoredCourse) -> tuple[str, ...]:
    """Return the GPU types that sessions of the course may have; (): any."""
    course = stored.course
    named = course.default.gpu_type or course.largest.gpu_type
    return (named,) if named else (stored.pinned.gpu_types if stored.pinned else ())


def reserved_gpus(stored: StoredCourse, snapshot: ClusterSnapshot) -> tuple[int, str]:
    """Return how many GPUs, of which type, a meeting's reservation names in Slurm; "" is any type.

    Whole nodes need none if all nodes of the partition have the type; otherwise they are reserved
    with all of their GPUs.
    """
    course, reserved = stored.course, stored.course.reservation
    named = reserved.partition or course.default.partition
    nodes = [
        candidate
        for candidate in snapshot.nodes.values()
        if named is None or named in candidate.partitions
    ]
    types, node_types = gpu_types(stored), {pool.type for node in nodes for pool in node.gpus}
    among = node_types & set(types) if types else node_types
    kind = next(iter(among)) if len(among) == 1 and UNNAMED not in among else ""
    if reserved.gpus:
        return reserved.gpus, kind
    wants = max(course.default.gpus, course.largest.gpus) > 0 and reserved.nodes
    having = [sum(pool.count for pool in node.gpus if pool.type == kind) for node in nodes]
    if not kind or not wants or all(having):
        return 0, kind if wants else ""
    return reserved.nodes * min(count for count in having if count), kind


def _seats(node: Node, each: Resources, types: tuple[str, ...]) -> int:
    """Return how many such sessions fit on an empty node."""
    rooms = [node.cpus // (each.cpus or 1)]
    if each.memory:
        rooms.append(node.memory // each.memory)
    if each.gpus:
        rooms.append(
            sum(pool.count // each.gpus for pool in node.gpus if not types or pool.type in types)
        )
    return min(rooms)
