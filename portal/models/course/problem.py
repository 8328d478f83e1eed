"""Problems of a course or a roster, in words."""

from __future__ import annotations

from .. import Frozen


class CourseProblem(Frozen):
    """Problem of a course. ``field`` is the key, with dots ("weekly.0.begins"); "": no single key.
    ``hint``: the course can be saved nevertheless; the sentence says what will happen."""

    field: str
    message: str
    hint: bool = False


class RosterProblem(Frozen):
    """Line of a roster that could not be used; ``line`` counts from 1."""

    line: int
    message: str
