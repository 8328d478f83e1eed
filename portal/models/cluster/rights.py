"""Rights of the portal's own account in Slurm."""

from __future__ import annotations

from .. import Frozen


class Rights(Frozen):
    """Rights of the portal's Slurm account to act on ``jobs`` (cancel, hold and release other
    people's, extend any) and on ``nodes`` (drain, resume).

    ``missing`` holds, under the same two keys, a sentence for each missing right: which right it
    takes and how to grant it, or that Slurm did not say (then ``known`` is False).
    """

    jobs: bool = False
    nodes: bool = False
    known: bool = True
    missing: dict[str, str] = {}
