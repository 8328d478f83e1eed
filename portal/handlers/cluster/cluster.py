"""``api/v1/cluster`` and ``api/v1/board``: the cluster in numbers, and all that the grid shows."""

from __future__ import annotations

from portal.models import Frozen
from portal.models.cluster.dashboard import Board, ClusterSummary
from portal.models.cluster.rights import Rights
from portal.models.scope import JOBS_MANAGE, JOBS_READ, MEANINGS, NODES_MANAGE

from ..base.endpoint import Endpoint, Operation


class PartitionItem(Frozen):
    """Partition of the cluster. ``max_time`` in seconds; null means no limit."""

    name: str
    state: str
    default: bool
    nodes: int
    max_time: int | None


class TelemetryStatus(Frozen):
    """Source of the GPUs' use: "prometheus", "simulated" or "none" (only what sessions report).

    ``error`` says why it does not answer, ``taken_at`` when it last did.
    """

    source: str
    simulated: bool
    error: str
    taken_at: float | None


class StoreStatus(Frozen):
    """Status of the portal's database: the error if it does not answer, and since when."""

    error: str
    error_since: float | None


class ClusterAnswer(Frozen):
    """State of the cluster.

    ``age`` is seconds since Slurm last answered; ``error`` says why it does not now. ``rights``
    are your scopes here, without their prefix; ``control`` is what Slurm lets the portal's account
    do, for those who may ask for it.
    """

    stream: str
    version: int
    taken_at: float
    age: float
    error: str
    summary: ClusterSummary
    partitions: tuple[PartitionItem, ...]
    telemetry: TelemetryStatus
    store: StoreStatus
    rights: tuple[str, ...]
    control: Rights | None


class ClusterEndpoint(Endpoint):
    """Cluster in numbers."""

    path = "cluster"

    @Operation("Summary of the cluster.")
    async def on_get(self) -> ClusterAnswer:
        parts, person, view = self.parts, self.person, self.view
        acts = person.may(JOBS_MANAGE) or person.may(NODES_MANAGE)
        return ClusterAnswer(
            stream=view.stream,
            version=view.version,
            taken_at=view.taken_at,
            age=view.snapshot.age,
            error=view.error,
            summary=view.summary,
            partitions=tuple(
                PartitionItem(
                    name=partition.name,
                    state=partition.state,
                    default=partition.default,
                    nodes=len(partition.nodes),
                    max_time=partition.max_time,
                )
                for partition in view.snapshot.partitions.values()
            ),
            telemetry=TelemetryStatus(
                source=parts.telemetry.source,
                simulated=parts.telemetry.simulated,
                error=parts.telemetry.error,
                taken_at=parts.telemetry.taken_at,
            ),
            store=StoreStatus(error=parts.store.error, error_since=parts.store.error_since),
            rights=tuple(
                scope.removeprefix("custom:portal:") for scope in MEANINGS if person.may(scope)
            ),
            control=await parts.control.rights() if acts else None,
        )


class BoardEndpoint(Endpoint):
    """Grid of nodes and GPUs."""

    path = "board"
    _mark = ""

    @Operation("All nodes and GPUs at one version.", answer=Board, errors=(304,))
    async def on_get(self) -> None:
        """Return the same bytes to all who may see the same. The ETag is the version.

        What is yours comes with 'events' or 'changes'.
        """
        view, named = self.view, self.person.may(JOBS_READ)
        zipped = "gzip" in self.request.headers.get("Accept-Encoding", "")
        self._mark = "-".join(
            [view.stream, str(view.version), *["named"] * named, *["gzip"] * zipped]
        )
        self.set_header("Cache-Control", "private, no-cache")
        self.set_header("Vary", "Accept-Encoding, Authorization, Cookie")
        self.set_etag_header()
        if self.check_etag_header():
            self.set_status(304)
            self.clear_header("Content-Type")
            self.finish()
            return
        if zipped:
            self.set_header("Content-Encoding", "gzip")
        self.finish(await self.parts.dashboard.board(self.person, compressed=zipped))

    def compute_etag(self) -> str | None:
        return f'"{self._mark}"' if self._mark else None


ENDPOINTS = (ClusterEndpoint, BoardEndpoint)
