"""Choices of the launch form, derived from what the cluster has. Pure.

A choice with a single value is not offered: its tuple is empty. Fields under "More" are in
portal/launch/choices/field_choices.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from portal.catalog.offers.preferences import Preferences
from portal.catalog.offers.tile import Tile, day
from portal.launch.availability import Availability
from portal.launch.choices.field_choices import Choice
from portal.launch.fields import FIELDS
from portal.launch.kinds import USUAL, offered_kinds
from portal.launch.limits.qos import longest_walls
from portal.models.catalog.environment import Environment, refusals_of
from portal.models.cluster.cluster import Association, Qos
from portal.models.session.resources import Resources, time_seconds
from portal.models.space import Space
from portal.spaces.job_space import JobSpace
from portal.spaces.registry import type_of

from ..host.storage import StorageArea
from . import words
from .view import Area, Card, SpaceField


def seconds(text: Any) -> int:
    try:
        return time_seconds(str(text))
    except ValueError:
        return 0


def card(tile: Tile, preferences: Preferences, selected: bool) -> Card:
    used = preferences.used.get(tile.name)
    return Card.model_construct(
        **tile.__dict__,
        selected=selected,
        favourite=tile.name in preferences.liked,
        used=f"used {day(used)}" if used else "",
    )


def kind_choices(
    environments: Sequence[Environment], last: Mapping[str, Any]
) -> tuple[Choice, ...]:
    """Return the kinds of session to choose from; () if the environments have only the usual."""
    kinds = [k for k in offered_kinds().values() if any(not k.unfit(e) for e in environments)]
    if len(kinds) < 2:
        return ()
    chosen = last.get("kind", USUAL.name)
    return tuple(
        Choice(value=kind.name, label=kind.title, selected=kind.name == chosen) for kind in kinds
    )


def space_fields(spaces: Sequence[Space], last: Mapping[str, Any]) -> tuple[SpaceField, ...]:
    """Return a field for each type of the spaces that a session can be launched for."""
    of_types: dict[type[JobSpace], list[Space]] = {}
    for space in spaces:
        of_types.setdefault(type_of(space), []).append(space)
    return tuple(
        SpaceField(
            option=type_.option,
            label=f"For a {type_.noun}",
            choices=(
                Choice(value="", label="No, for me"),
                *(
                    Choice(
                        value=space.name,
                        label=space.title,
                        selected=last.get(type_.option) == space.name,
                    )
                    for space in own
                ),
            ),
        )
        for type_, own in of_types.items()
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
    """Return the longest time in seconds that any partition, and any account and QOS of the
    person, allows; None: no limit. ``known``: QOS by name."""
    limits: list[int] = []
    for group in (
        [p.max_time for p in supply.partitions.values()],
        longest_walls(associations or (), known),
    ):
        given = [limit for limit in group if limit is not None]
        if given and len(given) == len(group):
            limits.append(max(given))
    return min(limits) if limits else None


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
        path=area.shown or area.path,
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
    titles: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    site = defaults.model_dump(exclude_unset=True, exclude_none=True) if defaults else {}
    return {
        "owner": owner,  # whose session it will be: an admin may start one for somebody else
        "fields": [{"name": field.name, "folded": field.folded} for field in FIELDS],
        "words": {
            field.name: {
                "label": field.label,
                "should_be": field.should_be,
                "usual": Resources.model_fields[field.name].default,
            }
            for field in FIELDS
        },
        "environments": {
            e.name: {
                "title": e.title,
                "kinds": [name for name, kind in offered_kinds().items() if not kind.unfit(e)],
                "gpu_types": list(e.gpu_types),
                "refusals": refusals_of(e),
                "max_gpus": e.max_gpus,
                "max_cpus": e.max_cpus,
                "max_memory": e.max_memory,
                "max_seconds": e.max_time,
                "default": {
                    **site,
                    **e.default.model_dump(exclude_unset=True, exclude_none=True),
                },
            }
            for e in environments
        },
        "kinds": {name: kind.title for name, kind in offered_kinds().items()},
        "usual_kind": USUAL.name,
        "gpus": {
            name: {
                "title": titles.get(name, name),
                "per_node": gpu.per_node,
                "each": gpu.each,
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
