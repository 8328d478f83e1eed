"""How each choice of the launch form is made, from what the cluster has. Pure.

A choice with one value is not asked: its tuple is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from portal.catalog.habits import Habits
from portal.catalog.tile import Tile, day
from portal.launch.availability import Availability
from portal.launch.policy import usable_reservation
from portal.launch.qos import default_qos, longest_walls
from portal.models.cluster import Association, ClusterSnapshot, Qos, Reservation
from portal.models.environment import Environment
from portal.models.offered import refusals_of
from portal.models.person import Person
from portal.models.resources import Resources, memory_mib, time_seconds

from . import words
from .launch_view import Area, Card, Choice
from .storage import StorageArea


def seconds(text: Any) -> int:
    try:
        return time_seconds(str(text))
    except ValueError:
        return 0


def card(tile: Tile, habits: Habits, selected: bool) -> Card:
    used = habits.used.get(tile.name)
    return Card.model_construct(
        **tile.__dict__,
        selected=selected,
        favourite=tile.name in habits.liked,
        used=f"used {day(used)}" if used else "",
    )


def gpu_counts(most: int, selected: int) -> tuple[Choice, ...]:
    if not most:
        return ()
    return tuple(
        Choice(value=str(n), label=str(n) if n else "None", selected=n == selected)
        for n in range(most + 1)
    )


def longest_time(
    supply: Availability,
    associations: Sequence[Association] | None,
    known: Mapping[str, Qos] = MappingProxyType({}),
) -> int | None:
    """The longest time in seconds that any partition allows, and any account and QOS of the
    person; None: no limit. ``known``: QOS by name."""
    limits: list[int] = []
    for group in (
        [p.max_time for p in supply.partitions.values()],
        longest_walls(associations or (), known),
    ):
        given = [limit for limit in group if limit is not None]
        if given and len(given) == len(group):
            limits.append(max(given))
    return min(limits) if limits else None


def most_nodes(supply: Availability) -> int:
    return max(
        (
            min(p.nodes, p.max_nodes) if p.max_nodes is not None else p.nodes
            for p in supply.partitions.values()
        ),
        default=1,
    )


def _with_default(label: str, rest: Sequence[Choice]) -> tuple[Choice, ...]:
    taken = any(choice.selected for choice in rest)
    return (Choice(value="", label=label, selected=not taken), *rest)


def partition_choices(
    supply: Availability, last: Mapping[str, Any], simulated: Collection[str] = ()
) -> tuple[Choice, ...]:
    if len(supply.partitions) < 2:
        return ()
    choices = []
    for name, partition in supply.partitions.items():
        note = f"{partition.cpus_free} of {partition.cpus} CPUs free"
        if partition.gpus:
            kind = "simulated GPUs" if set(partition.gpu_types) <= set(simulated) else "GPUs"
            note = f"{partition.gpus_free} of {partition.gpus} {kind} free, {note}"
        if partition.waiting:
            note += f", {words.count(partition.waiting, 'job')} waiting"
        choices.append(
            Choice(value=name, label=name, note=note, selected=name == last.get("partition"))
        )
    return _with_default("Automatic", choices)


def account_choices(
    associations: Sequence[Association] | None, last: Mapping[str, Any]
) -> tuple[Choice, ...]:
    rows = associations or ()
    names = sorted({row.account for row in rows})
    if len(names) < 2:
        return ()
    usual = next((row.account for row in rows if row.is_default_account), "")
    label = f"Default ({usual})" if usual else "Default"
    return _with_default(
        label, [Choice(value=n, label=n, selected=n == last.get("account")) for n in names]
    )


def qos_choices(
    associations: Sequence[Association] | None,
    last: Mapping[str, Any],
    known: Mapping[str, Qos] = MappingProxyType({}),
) -> tuple[Choice, ...]:
    rows = associations or ()
    accounts: dict[str, list[str]] = {}
    for row in rows:
        for name in row.qos:
            accounts.setdefault(name, []).append(row.account)
    if len(accounts) < 2:
        return ()

    def longest(name: str) -> dict[str, str]:
        wall = known[name].max_wall if name in known else None
        return {} if wall is None else {"seconds": str(wall)}

    usual = {row.default_qos for row in rows} - {""}
    label = f"Default ({usual.pop()})" if len(usual) == 1 else "Default"
    named = [
        Choice(
            value=name,
            label=name,
            selected=name == last.get("qos"),
            data={"accounts": " ".join(sorted(set(having))), **longest(name)},
        )
        for name, having in sorted(accounts.items())
    ]
    first, *rest = _with_default(label, named)
    return (first.model_copy(update={"data": longest(default_qos(rows) or "")}), *rest)


def reservation_choices(
    snapshot: ClusterSnapshot,
    person: Person,
    associations: Sequence[Association] | None,
    last: Mapping[str, Any],
    now: float,
) -> tuple[Choice, ...]:
    mine = [
        reservation
        for reservation in snapshot.reservations.values()
        if usable_reservation(reservation, person, associations)
    ]
    if not mine:
        return ()

    def label(reservation: Reservation) -> str:
        if reservation.start_time > now:
            return f"{reservation.name} (from {words.clock(reservation.start_time, now)})"
        return f"{reservation.name} (until {words.clock(reservation.end_time, now)})"

    return _with_default(
        "None",
        [
            Choice(value=r.name, label=label(r), selected=r.name == last.get("reservation"))
            for r in sorted(mine, key=lambda r: (r.start_time, r.name))
        ],
    )


def area_in_words(area: StorageArea) -> Area:
    if area.missing:
        text = "does not exist"
    elif not area.answers or area.free_bytes is None:
        text = "does not answer"
    else:
        text = f"{words.size(area.free_bytes)} free"
        if area.total_bytes:
            text += f" of {words.size(area.total_bytes)}"
    percent = area.used_percent
    return Area(
        title=area.title,
        path=area.path,
        text=text,
        used_percent=percent,
        warning=percent is None or percent >= 95,
    )


def client_data(
    environments: Sequence[Environment],
    supply: Availability,
    defaults: Resources | None,
    simulated: Collection[str] = (),
    owner: str = "",
) -> dict[str, Any]:
    site = defaults.model_dump(exclude_unset=True, exclude_none=True) if defaults else {}
    return {
        "owner": owner,  # whose session it will be: an admin may start one for somebody else
        "environments": {
            e.name: {
                "title": e.title,
                "gpu_types": list(e.gpu_types),
                "refusals": refusals_of(e),
                "max_gpus": e.max_gpus,
                "max_cpus": e.max_cpus,
                "max_memory": memory_mib(e.max_memory) if e.max_memory else None,
                "max_seconds": time_seconds(e.max_time) if e.max_time else None,
                "default": {
                    **site,
                    **e.default.model_dump(exclude_unset=True, exclude_none=True),
                },
            }
            for e in environments
        },
        "gpus": {
            name: {
                "per_node": gpu.per_node,
                "free": gpu.free,
                "total": gpu.total,
                "free_on_one_node": gpu.free_on_one_node,
                "partitions": list(gpu.partitions),
                "simulated": name in simulated,
            }
            for name, gpu in supply.gpus.items()
        },
        "partitions": {
            name: {
                "gpu_types": p.gpu_types,
                "max_seconds": p.max_time,
                "cpus_per_node": p.cpus_per_node,
                "cpus_free": p.cpus_free,
                "max_nodes": p.max_nodes,
            }
            for name, p in supply.partitions.items()
        },
    }
