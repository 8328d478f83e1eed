"""View of the cluster as shown now: items with all names, the same without, and the board."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..models.cluster.cluster import ClusterSnapshot
from ..models.cluster.dashboard import Board, ClusterSummary, GpuItem, JobItem, NodeItem
from ..models.session.session import SessionRecord

Item = TypeVar("Item", JobItem, GpuItem)


@dataclass(frozen=True)
class Owned:
    """Items of one person: ids of jobs, and keys of GPUs ("NODE/INDEX")."""

    jobs: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


NOTHING = Owned()


class Placed(Mapping[str, JobItem]):
    """Jobs by id, each with its position, which is filled in on access."""

    def __init__(self, bare: Mapping[str, JobItem], positions: Mapping[str, int]) -> None:
        self.bare, self._positions = bare, positions
        self._all: list[JobItem] | None = None

    def __getitem__(self, id_: str) -> JobItem:
        item, position = self.bare[id_], self._positions.get(id_)
        return item if position is None else item.altered(position=position)

    def __contains__(self, id_: object) -> bool:
        return id_ in self.bare

    def __iter__(self) -> Iterator[str]:
        return iter(self.bare)

    def __len__(self) -> int:
        return len(self.bare)

    def all(self) -> list[JobItem]:
        """Return all jobs; the list is made once and must not be changed."""
        if self._all is None:
            self._all = [self[id_] for id_ in self.bare]
        return self._all


@dataclass(frozen=True, eq=False)
class ClusterView:
    """View of one version. It contains all names: use Dashboard.jobs_for and gpus_for to show its
    items to a person."""

    stream: str
    version: int
    taken_at: float  # time of Slurm's last answer (Unix seconds)
    error: str  # why Slurm does not answer now
    summary: ClusterSummary
    nodes: Mapping[str, NodeItem]  # by name
    gpus: Mapping[str, GpuItem]  # by "NODE/INDEX"
    jobs: Placed  # by id
    snapshot: ClusterSnapshot
    # The living portal sessions by job id, as far as Slurm knows their jobs.
    sessions: Mapping[str, SessionRecord]
    unnamed_gpus: Mapping[str, GpuItem]
    unnamed_jobs: Placed
    owned: Mapping[str, Owned]
    simulated: bool = False
    telemetry_error: str = ""
    telemetry_at: float | None = None
    _boards: dict[tuple[bool, bool], bytes] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def id(self) -> str:
        """Id of this version in the event stream."""
        return f"{self.stream}-{self.version}"

    def board(self, named: bool) -> bytes:
        """Return the JSON of the Board, with or without names; made once. Takes tens of
        milliseconds for thousands of GPUs: Dashboard.board does it in a thread."""
        return self._board(named, False)

    def board_gzip(self, named: bool) -> bytes:
        """Return the JSON of the Board, compressed with gzip (RFC 1952)."""
        return self._board(named, True)

    def has_board(self, named: bool, compressed: bool) -> bool:
        """Return True if this form of the Board was made already."""
        return (named, compressed) in self._boards

    def _board(self, named: bool, compressed: bool) -> bytes:
        with self._lock:  # threads that need the same board share the work
            if (named, compressed) not in self._boards:
                if (named, False) not in self._boards:
                    self._boards[named, False] = self._make(named)
                if compressed:
                    plain = self._boards[named, False]
                    self._boards[named, True] = gzip.compress(plain, 5, mtime=0)
            return self._boards[named, compressed]

    def _make(self, named: bool) -> bytes:
        board = Board.trusted(
            stream=self.stream,
            version=self.version,
            taken_at=self.taken_at,
            error=self.error,
            simulated=self.simulated,
            telemetry_error=self.telemetry_error,
            telemetry_at=self.telemetry_at,
            summary=self.summary,
            nodes=dict(self.nodes),
            gpus=dict(self.gpus if named else self.unnamed_gpus),
        )
        return board.model_dump_json().encode()

    def owned_by(self, user: str) -> Owned:
        """Return the keys of this person's items."""
        return self.owned.get(user, NOTHING)

    def jobs_of(self, user: str, named: bool) -> Sequence[JobItem]:
        """Return all jobs, as this person may see them."""
        shared = (self.jobs if named else self.unnamed_jobs).all()
        own = self.own_jobs(user)
        return [own.get(item.id, item) for item in shared] if own else shared

    def gpus_of(self, user: str, named: bool) -> Sequence[GpuItem]:
        """Return all GPUs, as this person may see them."""
        shared = self.gpus if named else self.unnamed_gpus
        own = self.own_gpus(user)
        return list({**shared, **own}.values()) if own else list(shared.values())

    def own_jobs(self, user: str) -> dict[str, JobItem]:
        """Return this person's jobs, marked as theirs."""
        return {id_: mine(self.jobs[id_]) for id_ in self.owned_by(user).jobs}

    def own_gpus(self, user: str) -> dict[str, GpuItem]:
        """Return the GPUs that this person's jobs hold, marked as theirs."""
        return {key: mine(self.gpus[key]) for key in self.owned_by(user).gpus}


def mine(item: Item) -> Item:
    """Return the item, marked as the viewer's own."""
    return item.altered(mine=True)
