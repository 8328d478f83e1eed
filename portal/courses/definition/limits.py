"""Limits of a course's sessions: by its environment, this cluster, and its approval."""

from __future__ import annotations

from portal.launch.fields import FIELDS
from portal.launch.limits.limits import environment_limits, partition_limits
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.course.course import Course
from portal.models.problem import FieldProblem
from portal.models.session.resources import Resources
from portal.models.words import duration

from .calendar import all_meetings

# Set once for the whole course, in another field.
ELSEWHERE = {"account": "account", "reservation": "reservation"}
_SIZES = [field.name for field in FIELDS if field.size or field.counts]
# Fields without an order: values are equal or different.
_NAMES = [field.name for field in FIELDS if field.name not in {*_SIZES, *ELSEWHERE}]


def resource_problems(
    course: Course, pinned: Environment | None, snapshot: ClusterSnapshot | None
) -> list[FieldProblem]:
    """Return what the environment and the cluster (if known) cannot provide."""
    problems = []
    for part in ("default", "largest"):
        resources: Resources = getattr(course, part)
        for name, place in ELSEWHERE.items():
            if getattr(resources, name) is not None:
                problems.append(
                    FieldProblem(
                        field=f"{part}.{name}", message=f"Set '{place}' of the course instead."
                    )
                )
        reasons = environment_limits(resources, pinned) if pinned else []
        problems += [FieldProblem(field=part, message=reason) for reason in reasons]
        problems += _there(part, resources, snapshot)
    for name in exceeding(course.default, course.largest):
        problems.append(
            FieldProblem(
                field=f"default.{name}",
                message=f"The default exceeds the maximum ('largest.{name}').",
            )
        )
    reserved, where = course.reservation, "reservation.partition"
    if reserved.partition and snapshot is not None:
        partition = snapshot.partitions.get(reserved.partition)
        if partition is None:
            problems.append(_no_partition(where, reserved.partition, snapshot))
        elif reserved.nodes > len(partition.nodes):
            problems.append(
                FieldProblem(
                    field="reservation.nodes",
                    message=f"The partition '{partition.name}' has {len(partition.nodes)} nodes, "
                    f"not {reserved.nodes}.",
                )
            )
    elif snapshot is not None and reserved.nodes > len(snapshot.nodes):
        problems.append(
            FieldProblem(
                field="reservation.nodes",
                message=f"This cluster has {len(snapshot.nodes)} nodes, not {reserved.nodes}.",
            )
        )
    return problems


def _there(part: str, resources: Resources, snapshot: ClusterSnapshot | None) -> list[FieldProblem]:
    """Return which of the resources this cluster does not have."""
    if snapshot is None:
        return []
    problems = []
    types = {pool.type for node in snapshot.nodes.values() for pool in node.gpus}
    if resources.gpu_type and resources.gpu_type not in types:
        have = ", ".join(sorted(types)) or "none"
        problems.append(
            FieldProblem(
                field=f"{part}.gpu_type",
                message=f"This cluster has no '{resources.gpu_type}' GPUs. Available: {have}.",
            )
        )
    if resources.partition:
        partition = snapshot.partitions.get(resources.partition)
        if partition is None:
            problems.append(_no_partition(f"{part}.partition", resources.partition, snapshot))
        else:
            reasons = partition_limits(resources, partition, snapshot)
            problems += [FieldProblem(field=part, message=reason) for reason in reasons]
    return problems


def _no_partition(field: str, name: str, snapshot: ClusterSnapshot) -> FieldProblem:
    have = ", ".join(sorted(snapshot.partitions))
    return FieldProblem(field=field, message=f"There is no partition '{name}'. Available: {have}.")


def _sizes(resources: Resources) -> dict[str, int | None]:
    """Return the quantities, as numbers; None: not set."""
    return {name: getattr(resources, name) for name in _SIZES}


def exceeding(some: Resources, largest: Resources) -> list[str]:
    """Return the fields in which ``some`` exceeds ``largest``, if both are set. No GPUs as the
    largest number means unset (portal/launch/course.py)."""
    most = _sizes(largest)
    most["gpus"] = most["gpus"] or None
    return [
        name
        for name, size in _sizes(some).items()
        if size is not None and (limit := most[name]) is not None and size > limit
    ]


def hours(course: Course) -> float:
    """Return the length of all meetings together, in hours."""
    return sum(meeting.ends - meeting.begins for meeting in all_meetings(course)) / 3600


def more_than_approved(approved: Course, wanted: Course) -> list[FieldProblem]:
    """Return the changes that go beyond an admin's approval."""
    exceeded: dict[str, str] = {}
    for part in ("default", "largest"):
        before, after = getattr(approved, part), getattr(wanted, part)
        sizes = _sizes(before)
        for name, size in _sizes(after).items():
            limit = sizes[name]
            # Unset means the site's or Slurm's default, which may exceed the approved value.
            if limit is not None and (size is None or size > limit):
                exceeded[f"{part}.{name}"] = str(getattr(before, name))
        for name in _NAMES:
            # Unset, it is whatever the site and Slurm give: maybe all of them.
            if getattr(after, name) != getattr(before, name):
                exceeded[f"{part}.{name}"] = getattr(before, name) or "any"
    if wanted.account != approved.account:
        exceeded["account"] = approved.account or "each student's own account"
    if approved.budget is not None and (wanted.budget is None or wanted.budget > approved.budget):
        exceeded["budget"] = f"{approved.budget:g} GPU-hours"
    for name in ("nodes", "gpus"):
        if getattr(wanted.reservation, name) > getattr(approved.reservation, name):
            exceeded[f"reservation.{name}"] = str(getattr(approved.reservation, name))
    if wanted.reservation.partition != approved.reservation.partition:
        exceeded["reservation.partition"] = approved.reservation.partition or "any"
    if (wanted.reservation.nodes or wanted.reservation.gpus) and hours(wanted) > hours(approved):
        exceeded["weekly"] = f"{duration(3600 * hours(approved))} of meetings"
    if wanted.help == "always" != approved.help:
        exceeded["help"] = f"'{approved.help}'"
    if wanted.ends > approved.ends:
        exceeded["ends"] = str(approved.ends)
    if wanted.begins < approved.begins:
        exceeded["begins"] = str(approved.begins)
    return [
        FieldProblem(field=field, message=f"An admin approved {value}. Ask an admin to change it.")
        for field, value in exceeded.items()
    ]
