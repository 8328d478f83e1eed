"""The dashboard's view, as far as those who watch sessions need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.dashboard import GpuItem
from portal.models.session.session import SessionRecord


class View(Protocol):
    """Snapshot of the cluster, and the live sessions by job id."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...
    @property
    def sessions(self) -> Mapping[str, SessionRecord]: ...


class DatedView(View, Protocol):
    """View with the time at which it was made, in Unix seconds."""

    @property
    def taken_at(self) -> float: ...


class WholeView(DatedView, Protocol):
    """View with the GPUs by "NODE/INDEX", and why Slurm does not answer now; "": it does."""

    @property
    def gpus(self) -> Mapping[str, GpuItem]: ...
    @property
    def error(self) -> str: ...
