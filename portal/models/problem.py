"""Problems of a definition, in words."""

from __future__ import annotations

from . import Frozen


class FieldProblem(Frozen):
    """Problem of a definition. ``field`` is the key, with dots ("weekly.0.begins"); "": no single
    key. ``hint``: it can be saved nevertheless; the sentence says what will happen."""

    field: str
    message: str
    hint: bool = False
