"""Fields of the forms for the resources of an environment or a space, in the pages. Pure."""

from __future__ import annotations

from ...models import Frozen
from ...models.cluster.cluster import ClusterSnapshot
from ...models.session.resources import Resources
from ..fields import FIELDS, Field


class FormField(Frozen):
    """Field of such a form. ``usual``: the value that stands for no choice; ``values``: those that
    the cluster has, as suggestions."""

    name: str
    label: str
    number: bool
    usual: int | str | None
    help: str
    values: tuple[str, ...]


def form_fields(snapshot: ClusterSnapshot | None) -> tuple[FormField, ...]:
    """Return all fields of the table. ``snapshot``: None if Slurm has not answered yet."""
    return tuple(
        FormField.like(
            field,
            number=bool(field.counts),
            usual=Resources.model_fields[field.name].default,
            values=_values(field, snapshot) if snapshot else (),
        )
        for field in FIELDS
    )


def _values(field: Field, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    if field.name == "partition":
        return tuple(sorted(snapshot.partitions))
    return tuple(sorted(field.there(list(snapshot.nodes.values())))) if field.there else ()
