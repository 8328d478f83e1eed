"""Problems of a roster, in words."""

from __future__ import annotations

from .. import Frozen


class RosterProblem(Frozen):
    """Line of a roster that could not be used; ``line`` counts from 1."""

    line: int
    message: str
