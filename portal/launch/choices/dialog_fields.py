"""Fields of the dialogs for resources: of moves, kernels and runs. Pure. Those of the forms of
environments and spaces are in ``form_fields.py``.

JupyterLab and the portal's pages show them (kernels/labextension/src/resources-form.js); the
options of ``portal-run`` are made of those of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...models import Frozen
from ...models.cluster.cluster import Node
from ..fields import FIELDS, Field
from .field_choices import Choice, Facts, choices_of


class DialogField(Frozen):
    """Field of a dialog: ``values`` are those to choose from, null if it is free; without any it
    is not shown. ``labels``: of values that are shown in other words; ``unset``: of no value.
    ``number``: true for a whole number, of ``least`` at least. ``should_be``: its values in words.
    ``folded``: under "More"."""

    name: str
    label: str
    number: bool = False
    least: int = 0
    values: tuple[str, ...] | None = None
    labels: dict[str, str] = {}
    unset: str = "any"
    should_be: str = ""
    folded: bool = False


def fields_of_move(nodes: Sequence[Node]) -> tuple[DialogField, ...]:
    """Return the fields of a dialog by which a running session gets other resources. ``nodes``:
    the cluster's, which say what there is to choose from."""
    return tuple(
        _field(field, tuple(sorted(field.there(nodes))) if field.there else None)
        for field in FIELDS
        if field.moved
    )


def fields_of_run(facts: Facts, inherited: Mapping[str, Any]) -> tuple[DialogField, ...]:
    """Return all fields, for a run. ``inherited``: options that a run has of its session unless it
    is asked for others."""
    return tuple(_of_run(field, facts, inherited.get(field.name)) for field in FIELDS)


def _of_run(field: Field, facts: Facts, inherited: Any) -> DialogField:
    choices = choices_of(field, facts)
    if not choices:
        return _field(field, None if choices is None else (), folded=field.folded)
    nothing, *rest = choices
    labels = {choice.value: _label(choice) for choice in rest}
    return _field(
        field,
        tuple(labels),
        labels={value: label for value, label in labels.items() if label != value},
        unset=nothing.label if inherited is None else f"The session's ({inherited})",
        folded=field.folded,
    )


def _label(choice: Choice) -> str:
    return f"{choice.label}: {choice.note}" if choice.note else choice.label


def _field(field: Field, values: tuple[str, ...] | None, **more: Any) -> DialogField:
    return DialogField(
        name=field.name,
        label=field.moved_label or field.label,
        number=bool(field.counts),
        least=0 if field.name == "gpus" else 1,
        values=values,
        should_be=field.should_be,
        **more,
    )
