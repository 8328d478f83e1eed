"""Choices of the fields of the table (fields.py), for one person on this cluster. Pure.

The launch page has them under "More", the dialogs of a run beside their fields. A choice with a
single value is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ...models import Frozen, words
from ...models.cluster.cluster import Association, ClusterSnapshot, Reservation
from ...models.person import Person
from ...models.session.resources import Resources
from ..availability import Availability
from ..fields import FIELDS, Field
from ..limits.qos import default_qos
from ..policy import usable_reservation


class Choice(Frozen):
    """Option of a choice. ``note`` is shown beside it; ``data`` becomes data-* attributes."""

    value: str
    label: str
    note: str = ""
    selected: bool = False
    data: dict[str, str] = {}


class FoldedField(Frozen):
    """Field under "More", selected from ``choices`` if there are any, else typed; ``most`` 0: no
    limit is known."""

    name: str
    label: str
    words: str  # the label within a sentence
    note: str = ""
    number: bool = False
    pattern: str = ""
    example: str = ""
    value: str = ""
    placeholder: str = ""
    most: int = 0
    choices: tuple[Choice, ...] = ()


class Facts(NamedTuple):
    """Facts behind the choices."""

    snapshot: ClusterSnapshot
    supply: Availability
    associations: Sequence[Association] | None
    person: Person
    now: float  # Unix seconds
    simulated: Collection[str] = ()  # the simulated GPU types
    last: Mapping[str, Any] = MappingProxyType({})  # what this person chose last
    preset: Mapping[str, Any] = MappingProxyType({})  # the defaults where nothing is chosen


def folded_fields(facts: Facts) -> tuple[FoldedField, ...]:
    """Return the fields to show, in the order of the table."""
    return tuple(
        folded_field
        for field in FIELDS
        if field.folded and (folded_field := _shown(field, facts)) is not None
    )


def choices_of(field: Field, facts: Facts) -> tuple[Choice, ...] | None:
    """Return the choices, first that of nothing; () if the field is not offered, None if it is
    free."""
    if field.name in _CHOICES:
        return _CHOICES[field.name](facts)
    if field.there:
        return _of_nodes(field, facts)
    return () if field.name == "nodes" and _most_nodes(facts.supply) < 2 else None


def _shown(field: Field, facts: Facts) -> FoldedField | None:
    choices = choices_of(field, facts)
    if choices == ():
        return None
    usual = Resources.model_fields[field.name].default
    value, preset = facts.last.get(field.name), facts.preset.get(field.name, usual)
    return FoldedField.like(
        field,
        number=bool(field.counts),
        value="" if value is None or value == usual else str(value),
        placeholder="Slurm's default" if preset is None else str(preset),
        most=_MOST[field.name](facts) if field.counts else 0,
        choices=choices or (),
    )


def _of_nodes(field: Field, facts: Facts) -> tuple[Choice, ...]:
    """Return values that nodes of the person's partitions have, each with its partitions."""
    having: dict[str, list[str]] = {}
    known = facts.snapshot.nodes
    for name in facts.supply.partitions:
        nodes = [known[node] for node in facts.snapshot.partitions[name].nodes if node in known]
        for value in field.there(nodes) if field.there else ():
            having.setdefault(value, []).append(name)
    if not having:
        return ()
    chosen = facts.last.get(field.name)
    return _with_default(
        "Any",
        [
            Choice(
                value=value,
                label=value,
                selected=value == chosen,
                data={"partitions": " ".join(names)},
            )
            for value, names in sorted(having.items())
        ],
    )


def _with_default(label: str, rest: Sequence[Choice]) -> tuple[Choice, ...]:
    taken = any(choice.selected for choice in rest)
    return (Choice(value="", label=label, selected=not taken), *rest)


def _partitions(facts: Facts) -> tuple[Choice, ...]:
    supply, simulated = facts.supply, facts.simulated
    if len(supply.partitions) < 2:
        return ()
    choices = []
    for name, partition in supply.partitions.items():
        note = f"{partition.cpus_free} of {partition.cpus} CPUs free"
        if partition.gpus:
            kind = "simulated GPUs" if set(partition.gpu_types) <= set(simulated) else "GPUs"
            note = f"{partition.gpus_free} of {partition.gpus} {kind} free, {note}"
        if partition.gpus_asleep or partition.cpus_asleep:
            note += ", more is switched on when needed"
        if partition.waiting:
            note += f", {words.count(partition.waiting, 'job')} waiting"
        choices.append(
            Choice(value=name, label=name, note=note, selected=name == facts.last.get("partition"))
        )
    return _with_default("Automatic", choices)


def _accounts(facts: Facts) -> tuple[Choice, ...]:
    rows = facts.associations or ()
    names = sorted({row.account for row in rows})
    if len(names) < 2:
        return ()
    usual = next((row.account for row in rows if row.is_default_account), "")
    label = f"Default ({usual})" if usual else "Default"
    return _with_default(
        label, [Choice(value=n, label=n, selected=n == facts.last.get("account")) for n in names]
    )


def _qos(facts: Facts) -> tuple[Choice, ...]:
    known = facts.snapshot.qos
    rows = facts.associations or ()
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
            selected=name == facts.last.get("qos"),
            data={"accounts": " ".join(sorted(set(having))), **longest(name)},
        )
        for name, having in sorted(accounts.items())
    ]
    first, *rest = _with_default(label, named)
    return (first.model_copy(update={"data": longest(default_qos(rows) or "")}), *rest)


def _reservations(facts: Facts) -> tuple[Choice, ...]:
    now = facts.now
    reservations = [
        reservation
        for reservation in facts.snapshot.reservations.values()
        if usable_reservation(reservation, facts.person, facts.associations)
    ]
    if not reservations:
        return ()

    def label(reservation: Reservation) -> str:
        if reservation.start_time > now:
            return f"{reservation.name} (from {words.clock(reservation.start_time, now)})"
        return f"{reservation.name} (until {words.clock(reservation.end_time, now)})"

    return _with_default(
        "None",
        [
            Choice(value=r.name, label=label(r), selected=r.name == facts.last.get("reservation"))
            for r in sorted(reservations, key=lambda r: (r.start_time, r.name))
        ],
    )


def _most_nodes(supply: Availability) -> int:
    return max(
        (
            min(p.nodes, p.max_nodes) if p.max_nodes is not None else p.nodes
            for p in supply.partitions.values()
        ),
        default=1,
    )


_CHOICES: dict[str, Callable[[Facts], tuple[Choice, ...]]] = {
    "partition": _partitions,
    "account": _accounts,
    "qos": _qos,
    "reservation": _reservations,
}
_MOST: dict[str, Callable[[Facts], int]] = {
    "cpus": lambda facts: max(
        (p.cpus_per_node for p in facts.supply.partitions.values()), default=0
    ),
    "nodes": lambda facts: _most_nodes(facts.supply),
}
