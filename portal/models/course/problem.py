"""What is wrong with a course, or with a roster, in words."""

from __future__ import annotations

from .. import Frozen


class CourseProblem(Frozen):
    """One thing that is wrong. ``field`` is the key, with dots ("weekly.0.begins"); "": none of
    them. ``hint``: it can be saved so; the sentence says what will happen."""

    field: str
    message: str
    hint: bool = False


class RosterProblem(Frozen):
    """A line of a roster that could not be used; ``line`` counts from 1."""

    line: int
    message: str
