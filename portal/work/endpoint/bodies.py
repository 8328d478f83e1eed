"""Bodies of requests about endpoints, and of their answers. Times are Unix seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from portal.handlers.base.endpoint import Query
from portal.launch.request import AskedResources
from portal.models import Frozen
from portal.models.scope import SESSIONS_READ
from portal.models.session.chosen_id import ID
from portal.models.session.replica_set import MOST_REPLICAS
from portal.models.space import SpaceName

from .keeping.handover import ReplicaState
from .models import MOST_WORDS, HealthPath, RequestLimits, Word

_Who = Annotated[str, StringConstraints(pattern=r"^[^\s\x00]+$", max_length=255)]
RequestPath = Annotated[str, StringConstraints(pattern=r"^/[!-~]*$", max_length=200)]
StartFolder = Annotated[str, StringConstraints(pattern=r"^(~|/)[^\x00]*$", max_length=1000)]
_Count = Annotated[int, Field(ge=0, le=MOST_REPLICAS, strict=True)]
_Share = Annotated[int, Field(ge=0, le=100, strict=True)]


class WantedEndpoint(Frozen):
    """Endpoint as it should be; what is not named stays, or is the default. ``least``, ``most``:
    replicas; ``target``: requests for one replica at a time; ``idle``: seconds without a request
    after which it sleeps, if ``least`` is 0; ``users``, ``groups``, ``projects`` (their members, no
    readers), ``everyone``: who may use it, beside its owner. ``project``: for which it is served,
    whose members may always use it, "" for none; that cannot be changed."""

    project: Annotated[str, StringConstraints(pattern=r"^([a-z0-9]+(-[a-z0-9]+)*)?$")] = ""

    least: _Count = 0
    most: Annotated[int, Field(ge=1, le=MOST_REPLICAS, strict=True)] = 1
    target: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 8
    idle: Annotated[int, Field(ge=60, le=30 * 86_400, strict=True)] = 1800
    limits: RequestLimits = RequestLimits()
    users: Annotated[tuple[_Who, ...], Field(max_length=500)] = ()
    groups: Annotated[tuple[_Who, ...], Field(max_length=100)] = ()
    projects: Annotated[tuple[SpaceName, ...], Field(max_length=50)] = ()
    everyone: Annotated[bool, Field(strict=True)] = False


class Example(Frozen):
    """Request that each replica answers before it gets others: ``body`` is sent as JSON, and the
    answer has to contain the text ``contains``."""

    method: Literal["GET", "POST"] = "GET"
    path: RequestPath
    body: dict[str, Any] | None = None
    contains: Annotated[str, Field(max_length=1000)] = ""


class Source(Frozen):
    """Origin of a model: a point of one of your runs, a folder, or the name of a ``model``
    of the catalog."""

    run: Annotated[str, StringConstraints(pattern=f"^({ID})?$", max_length=40)] = ""
    point: Annotated[int, Field(ge=0, strict=True)] = 0
    folder: Annotated[str, Field(max_length=1000)] = ""
    model: Annotated[str, Field(max_length=60)] = ""


class WantedVersion(AskedResources):
    """Version to add, and the resources of each replica, as for a launch. ``environment_version``:
    the one whose software it gets, such as that of a run; 0: the current one. In ``command``,
    "{socket}" is replaced by the path of the Unix socket that the program must listen on (or
    "{port}" and "{secret}"). ``paths``: prefixes that are let through, none for all; ``share``: of
    the traffic in percent, which the other versions lose. With a model of the catalog as its
    ``source``, what is not named is that model's."""

    environment: Annotated[str, Field(max_length=300)] = ""
    environment_version: Annotated[int, Field(ge=0, le=2**31, strict=True)] = 0
    command: Annotated[tuple[Word, ...], Field(max_length=MOST_WORDS)] = ()
    health: HealthPath = "/health"
    folder: StartFolder = "~"
    paths: Annotated[tuple[RequestPath, ...], Field(max_length=50)] = ()
    example: Example | None = None
    source: Source = Source()
    share: _Share = 100


OF_VERSION = frozenset(WantedVersion.model_fields) - frozenset(AskedResources.model_fields)


class WantedShares(Frozen):
    """Shares of the traffic by the number of the version; the others get none. All of it for an
    earlier version rolls back."""

    shares: Annotated[dict[str, _Share], Field(min_length=1, max_length=20)]


EndpointState = Literal["ready", "loading", "waiting", "asleep", "failed", "empty"]


class EndpointsQuery(Query):
    """Choice of endpoints."""

    all: Annotated[
        bool, Field(description=f"Also those of other users. Needs {SESSIONS_READ}.")
    ] = False


class DeletionQuery(Query):
    """Reason for what is deleted."""

    reason: Annotated[
        str,
        Field(max_length=200, description="Required for another user's; the audit log has it."),
    ] = ""


class EndpointItem(Frozen):
    """Endpoint as its users see it. ``address``: path at the portal's host; ``ready``: replicas
    that answer; ``problem``: why it does not, a sentence; ``mine``: the person is its owner;
    ``project``: for which it is served, "" for none; ``active_at``: the last request, to the
    minute. One that is "empty" has no version with a share."""

    name: str
    owner: str
    project: str
    address: str
    state: EndpointState
    ready: int
    problem: str
    mine: bool
    active_at: float


class EndpointList(Frozen):
    """Endpoints that the user has or may use, by name."""

    items: tuple[EndpointItem, ...]


class EndpointVersionItem(Frozen):
    """Version. ``share``: of the traffic; ``failures``: replicas in a row that did not answer."""

    number: int
    created_at: float
    environment: str
    environment_version: int
    digest: str
    command: tuple[str, ...]
    health: str
    folder: str
    paths: tuple[str, ...]
    example: dict[str, Any]
    source: dict[str, Any]
    resources: dict[str, Any]
    share: int
    failures: int
    problem: str


class EndpointReplicaItem(Frozen):
    """Replica. ``ends_at``: the time limit of its job; ``overlap``: seconds for which its
    successor's job ran too, and ``gpu_hours``: of them; ``session``, ``nodes``: of its job while it
    lives."""

    id: str
    version: int
    state: ReplicaState
    server: str
    session: str
    job_id: str
    nodes: tuple[str, ...]
    successor_of: str
    created_at: float
    started_at: float | None
    ready_at: float | None
    ends_at: float | None
    ended_at: float | None
    overlap: float
    gpu_hours: float


class EndpointDetail(WantedEndpoint):
    """Endpoint as its owner sees it. ``load``: seconds from the start of a job to its first answer,
    and ``wait``: in the queue, by which successors are launched; ``expected_at``: when a replica
    will answer, null if one does or none comes."""

    name: str
    owner: str
    address: str
    created_at: float
    active_at: float
    problem: str
    load: float
    wait: float
    expected_at: float | None
    versions: tuple[EndpointVersionItem, ...]
    replicas: tuple[EndpointReplicaItem, ...]


class Reported(Frozen):
    """Report of a replica: the ``port`` of its listener on its node, its ``certificate`` (PEM), and
    whether its program answers."""

    port: Annotated[int, Field(ge=1024, le=65535, strict=True)]
    certificate: Annotated[str, Field(min_length=1, max_length=10_000)]
    ready: Annotated[bool, Field(strict=True)]


class Known(Frozen):
    """Answer to a report. ``draining``: the replica gets no new requests."""

    draining: bool
