"""What the sessions of a course want of the cluster, and how many of them fit there at once."""

from __future__ import annotations

from portal.models import Frozen
from portal.models.cluster.cluster import ClusterSnapshot, Node
from portal.models.course.course import KeptCourse
from portal.models.session.resources import Resources
from portal.slurm.parse.gres import UNNAMED


class Demand(Frozen):
    """``gpus`` that all students want at the same time with the course's default, ``most_gpus``
    with the most that each may take, and ``gpus_there`` on nodes that work (``gpus_free`` now);
    ``seats``: how many of the default sessions fit at once. ``words`` say it."""

    students: int
    gpus: int
    most_gpus: int
    gpus_there: int
    gpus_free: int
    gpu_type: str
    seats: int
    words: str


def demand_of(kept: KeptCourse, students: int, snapshot: ClusterSnapshot) -> Demand:
    """Of the course's default, in its partition, and on as many nodes as it reserves."""
    course, each = kept.course, kept.course.default
    types = gpu_types(kept)
    named = course.reservation.partition or each.partition
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
    there = sum(pool.count for pool in pools)
    free = sum(max(0, pool.count - pool.used) for pool in pools)
    wanted = students * each.gpus * each.nodes
    kind = f"{types[0]} GPUs" if len(types) == 1 else "GPUs"
    where = f"'{named}'" if named else "the cluster"
    people = f"{students} student{'' if students == 1 else 's'}"
    most = max(wanted, students * course.largest.gpus * course.largest.nodes)
    if each.gpus:
        words = f"{people} want {wanted} {kind}; {where} has {there}, {free} of them free now."
    else:
        words = f"{people} want no GPUs; {where} has {there}."
    if most > wanted:
        words += f" With the most that each may take they want {most}."
    if reserved:
        words += f" The {reserved} reserved nodes hold {seats} of their sessions at once."
    elif seats < students:
        words += f" {seats} of their sessions fit at once."
    return Demand(
        students=students,
        gpus=wanted,
        most_gpus=most,
        gpus_there=there,
        gpus_free=free,
        gpu_type=types[0] if len(types) == 1 else "",
        seats=seats,
        words=words,
    )


def gpu_types(kept: KeptCourse) -> tuple[str, ...]:
    """The types of GPUs that sessions of the course may have; () is any."""
    course = kept.course
    named = course.default.gpu_type or course.largest.gpu_type
    return (named,) if named else (kept.pinned.gpu_types if kept.pinned else ())


def reserved_gpus(kept: KeptCourse, snapshot: ClusterSnapshot) -> tuple[int, str]:
    """How many GPUs of which type the reservation of a meeting names in Slurm; "" is any type.

    Whole nodes need none where all nodes of the partition have the type; else they are nodes with
    all of their GPUs.
    """
    course, reserved = kept.course, kept.course.reservation
    named = reserved.partition or course.default.partition
    nodes = [one for one in snapshot.nodes.values() if named is None or named in one.partitions]
    types, there = gpu_types(kept), {pool.type for node in nodes for pool in node.gpus}
    among = there & set(types) if types else there
    kind = next(iter(among)) if len(among) == 1 and UNNAMED not in among else ""
    if reserved.gpus:
        return reserved.gpus, kind
    wants = max(course.default.gpus, course.largest.gpus) > 0 and reserved.nodes
    having = [sum(pool.count for pool in node.gpus if pool.type == kind) for node in nodes]
    if not kind or not wants or all(having):
        return 0, kind if wants else ""
    return reserved.nodes * min(count for count in having if count), kind


def _seats(node: Node, each: Resources, types: tuple[str, ...]) -> int:
    """How many such sessions an empty node holds."""
    rooms = [node.cpus // (each.cpus or 1)]
    if each.memory:
        rooms.append(node.memory // each.memory)
    if each.gpus:
        rooms.append(
            sum(pool.count // each.gpus for pool in node.gpus if not types or pool.type in types)
        )
    return min(rooms)
