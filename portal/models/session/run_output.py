"""Output of a run's point, as its job sends it: text only, in a bounded size."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from .. import Frozen

LARGEST = 320 * 1024  # bytes of a request with an output; the job's program sends 256 KiB
_LONGEST = 160_000  # characters of one text
_MOST_CELLS = 5_000
LONGEST_CODE = 4_000  # characters that a kept kernel is asked at once
MOST_QUESTIONS = 5  # that wait for an answer
# All but line feeds and tabs: a terminal, or a reader, could take the others for something else.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _plain(text: str) -> str:
    return _CONTROLS.sub("\ufffd", text)


# Number of a rank, of up to 256 on each node.
Rank = Annotated[int, Field(ge=0, lt=1_000_000)]
OutputText = Annotated[str, StringConstraints(max_length=_LONGEST), AfterValidator(_plain)]


class OutputCell(Frozen):
    """Cell of a notebook. ``kind``: "code", or "text" for Markdown; ``cell``: its number among
    those with code, from 1; ``output``: what it has printed and shown, as text."""

    kind: Literal["code", "text"]
    cell: Annotated[int, Field(ge=1)] | None = None
    state: Literal["waiting", "running", "failed", "done"]
    source: OutputText
    output: OutputText = ""


class PointOutput(Frozen):
    """Output of a point: the end of a script's ``log``, or the ``cells`` of a notebook around the
    one that runs or failed. ``cut``: the log has a beginning that is left out; ``left_out``: number
    of cells that are. ``ranks``: number of the script's ranks, 0: it has none; ``rank``: the one of
    which the log is."""

    log: OutputText | None = None
    cells: Annotated[tuple[OutputCell, ...], Field(max_length=_MOST_CELLS)] = ()
    cut: bool = False
    left_out: Annotated[int, Field(ge=0)] = 0
    rank: Rank = 0
    ranks: Rank = 0


class KernelQuestion(Frozen):
    """Code that a kept kernel is to execute, and its number."""

    id: int
    code: str


_LONGEST_ANSWER = 20_000  # characters; a job sends 16,000


class KernelAnswer(Frozen):
    """Text that a kept kernel has answered to the question with this number."""

    id: int
    text: Annotated[OutputText, StringConstraints(max_length=_LONGEST_ANSWER)]


class AskedKernel(KernelQuestion):
    """Question to a kept kernel, and its answer as ``text``; null: it has none yet."""

    text: str | None = None


class StoredOutput(Frozen):
    """Last output of an ``attempt`` of a failed point, which is stored; ``at``: Unix seconds."""

    attempt: int
    at: float
    output: PointOutput
