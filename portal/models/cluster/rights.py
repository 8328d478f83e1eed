"""What Slurm lets the portal's own account do."""

from __future__ import annotations

from .. import Frozen


class Rights(Frozen):
    """Whether the portal's Slurm account may act on ``jobs`` (cancel, hold and
    release other people's, extend any) and on ``nodes`` (drain, resume).

    ``missing`` has, under the same two words, a sentence for each that is not there: which right
    it takes and how it is given, or that Slurm did not say (then ``known`` is False).
    """

    jobs: bool = False
    nodes: bool = False
    known: bool = True
    missing: dict[str, str] = {}
