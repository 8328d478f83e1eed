"""Table of a session's options: everything about a field that is the same everywhere.

A field's values are defined by its type (portal/models/session/resources.py), its meaning for a
session by ``limits.py``. The request, the launch form and its script, the forms of environments and
spaces, the dialogs of moves, kernels and runs, kernelspecs of job kernels, the options of
portal-run and of sbatch, the API's document and the stored last choice all go through this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..models.cluster.cluster import Node
from ..models.cluster.gpu_share import SHARED, gres_request
from ..models.session.resources import MEMORY_TYPED, Resources, memory_of_typed
from ..spaces.registry import space_options

FIELD_HEADER = "X-Portal-Field"  # of the Hub's refusals: the field that one is about


class Field(NamedTuple):
    """Option of a session. ``name`` is its key in ``user_options``, in the form and in Resources.

    ``should_be`` ends the sentence "'x' must be …". ``counts``: the noun of what a number counts;
    "" for text. ``sbatch`` makes the option's value of the resources, None: no option.
    """

    name: str
    label: str
    should_be: str
    sbatch: tuple[str, Callable[[Resources], object]] | None = None
    counts: str = ""
    folded: bool = False  # under "More" on the launch page
    note: str = ""  # beside the label there
    pattern: str = ""  # HTML's, for its input; ``example`` says it in words
    example: str = ""
    moved: bool = False  # asked for when a running session gets other resources
    moved_label: str = ""  # its label then, if it is another
    inherited: bool = False  # from the running session, if nothing else is asked for
    in_spaces: bool = False  # chosen by a space's member; the space sets the rest
    size: bool = False  # an amount: a job with less of it starts no later
    as_written: Callable[[str], str] = str  # converts a form's text to the option
    # Values that nodes have, if the choices depend on the cluster.
    there: Callable[[Sequence[Node]], Iterable[str]] | None = None

    def of_text(self, text: str) -> int | str:
        """Return the option of a form's ``text``. Raises ValueError for what is no number."""
        if not self.counts:
            return self.as_written(text)
        # ASCII digits only: int() would also read "٣", "1_000" and " 3 ".
        if not re.fullmatch(r"[0-9]{1,6}", text):
            raise ValueError(text)
        return int(text)

    @property
    def help(self) -> str:
        """Sentence on the values, beside the field in a form; "" if its label says enough."""
        text = self.note or self.example or ("" if self.counts else self.should_be)
        return f"{text[0].upper()}{text[1:]}." if text else ""

    @property
    def words(self) -> str:
        """Label within a sentence: "memory", "QOS"."""
        return self.label if self.label[1:2].isupper() else self.label[0].lower() + self.label[1:]


def _gres(resources: Resources) -> str | None:
    kind, number = resources.gpu_type or "", resources.gpus
    if number and kind.startswith(SHARED):
        return gres_request(kind, number)
    return f"gpu:{kind}:{number}" if kind and number else f"gpu:{number}" if number else None


def _gpu_types(nodes: Sequence[Node]) -> Iterable[str]:
    pools = (pool for node in nodes for pool in (*node.gpus, *node.shares))
    return {pool.type for pool in pools} - {"gpu"}  # Slurm names none


FIELDS = (
    Field(
        "gpus",
        "GPUs",
        "a whole number, 0 or more",
        sbatch=("gres", _gres),
        counts="GPUs",
        moved=True,
        in_spaces=True,
        size=True,
    ),
    Field(
        "gpu_type",
        "GPU type",
        "a GPU type such as 'v100'",
        moved=True,
        in_spaces=True,
        there=_gpu_types,
    ),
    Field(
        "cpus",
        "CPUs",
        "a whole number, 1 or more",
        sbatch=("cpus-per-task", lambda of: of.cpus),
        counts="CPUs",
        folded=True,
        moved=True,
        in_spaces=True,
        size=True,
    ),
    Field(
        "memory",
        "Memory",
        "a size such as '4G'",
        sbatch=("mem", lambda of: of.memory),
        folded=True,
        note="per node, such as 16G",
        pattern=MEMORY_TYPED,
        example="A size such as 16G or 512M",
        moved=True,
        in_spaces=True,
        size=True,
        as_written=memory_of_typed,
    ),
    Field(
        "time",
        "Time limit",
        "a time such as '2:00:00'",
        sbatch=("time", lambda of: of.time),
        example="A time such as 2:00:00 or 1-00:00:00",
        moved=True,
        moved_label="Time limit, from the start of the job",
        in_spaces=True,
        size=True,
    ),
    Field(
        "partition",
        "Partition",
        "the name of a partition",
        sbatch=("partition", lambda of: of.partition),
        folded=True,
    ),
    Field(
        "account",
        "Account",
        "the name of a Slurm account",
        sbatch=("account", lambda of: of.account),
        folded=True,
        inherited=True,
    ),
    Field(
        "qos",
        "QOS",
        "the name of a QOS",
        sbatch=("qos", lambda of: of.qos),
        folded=True,
        inherited=True,
    ),
    Field(
        "reservation",
        "Reservation",
        "the name of a reservation",
        sbatch=("reservation", lambda of: of.reservation),
        folded=True,
    ),
    Field(
        "nodes",
        "Nodes",
        "a whole number, 1 or more",
        sbatch=("nodes", lambda of: of.nodes),
        counts="nodes",
        folded=True,
        note="JupyterLab runs on the first node",
    ),
    Field(
        "constraint",
        "Node features",
        "features of nodes such as 'nvlink' or 'nvlink&ssd'",
        sbatch=("constraint", lambda of: of.constraint),
        folded=True,
        moved=True,
        there=lambda nodes: {feature for node in nodes for feature in node.features},
    ),
)
OF = {field.name: field for field in FIELDS}
INHERITED = tuple(field.name for field in FIELDS if field.inherited)
IN_SPACES = frozenset(field.name for field in FIELDS if field.in_spaces)


class Objection(str):
    """Reason why a value may not be asked for: a sentence, and the ``field`` that it is about."""

    field: str

    def __new__(cls, sentence: str, field: str) -> Objection:
        objection = super().__new__(cls, sentence)
        objection.field = field
        return objection


def sbatch_pairs(resources: Resources) -> list[str]:
    """Return sbatch's options for what is asked for, each one argument (``--key=value``)."""
    pairs = [(field.sbatch[0], field.sbatch[1](resources)) for field in FIELDS if field.sbatch]
    return [f"--{key}={value}" for key, value in pairs if value is not None]


def document() -> dict[str, Any]:
    """Return the JSON schema of a session's options, for the API's document."""
    types = Resources.model_json_schema()["properties"]
    named = {name: _or_nothing({"type": "string"}) for name in (*space_options(), "environment")}
    for field in FIELDS:
        about = f"{field.should_be[0].upper()}{field.should_be[1:]}."
        named[field.name] = _or_nothing(types[field.name])
        named[field.name] |= {"title": field.label, "description": about}
    return {"type": "object", "properties": named, "additionalProperties": False}


def _or_nothing(schema: dict[str, Any]) -> dict[str, Any]:
    """Extend ``schema`` by what ``Asked.parse`` takes for unset: null, or a form's empty field."""
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice != {"type": "null"}]
    return {"anyOf": [*choices, {"type": "null"}, {"const": ""}]}
