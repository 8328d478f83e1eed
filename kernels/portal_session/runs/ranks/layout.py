"""Place of a rank among the others, as deploy/session.sh and srun say it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PLACE = "PORTAL_TEAM"  # path of the private folder by which the ranks find each other
_ON_NODE = "PORTAL_RANKS_ON_NODE"
_SPARE = "PORTAL_SPARE_NODES"


class Layout(NamedTuple):
    """Place of this process: its ``rank`` of ``size``, and on its node ``local_rank`` of
    ``on_node``. ``spare``: how many more nodes the partition has than the job needs."""

    place: Path
    rank: int
    size: int
    local_rank: int
    on_node: int
    node: str
    spare: int = 0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Layout | None:
        """Return the layout; None of a single process."""
        try:
            place, on_node = environ[PLACE], int(environ[_ON_NODE])
            rank, size = int(environ["SLURM_PROCID"]), int(environ["SLURM_NTASKS"])
            local_rank = int(environ["SLURM_LOCALID"])
        except (KeyError, ValueError):
            return None
        spare = environ.get(_SPARE, "")
        return cls(
            Path(place),
            rank,
            size,
            local_rank,
            on_node,
            environ.get("SLURMD_NODENAME", ""),
            int(spare) if spare.isdecimal() else 0,
        )

    @property
    def leads_node(self) -> bool:
        """Return True for the one rank of its node that checks what belongs to the node."""
        return self.local_rank == 0
