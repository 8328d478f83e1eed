"""Endpoints, their versions and replicas, as they are stored. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from portal.models import Frozen

NAME = r"[a-z0-9-]{2,40}"
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
HealthPath = Annotated[str, StringConstraints(pattern=r"^/[!-~]*$", max_length=200)]
Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=1000)]
MOST_WORDS = 100
Command = Annotated[tuple[Word, ...], Field(min_length=1, max_length=MOST_WORDS)]


def exposed(command: Sequence[str]) -> str:
    """Return why others could use what a command starts, a sentence; "" if they cannot."""
    words = " ".join(command)
    if "{socket}" in words or ("{port}" in words and "{secret}" in words):
        return ""
    return (
        "'command' must listen on '{socket}', or on '{port}' and ask for '{secret}': other users "
        "of the node could use it otherwise."
    )


class RequestLimits(Frozen):
    """Limits of requests: ``body`` in bytes; ``seconds`` of one request, and ``wake`` for which it
    waits for a replica; how many are ``in_flight`` at a replica and ``waiting`` for one."""

    body: Annotated[int, Field(ge=0, le=1024**3, strict=True)] = 10 * 1024**2
    seconds: Annotated[int, Field(ge=1, le=86_400, strict=True)] = 600
    wake: Annotated[int, Field(ge=0, le=3600, strict=True)] = 120
    in_flight: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 64
    waiting: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 200


class Endpoint(Frozen):
    """Model that answers under a name of the site."""

    name: Name
    user: str  # its owner
    project: str = ""  # whose account, limits and folder its replicas have; "": the owner's own
    created_at: float
    least: int = 0  # replicas
    most: int = 1
    target: int = 8  # requests for one replica at a time
    idle: int = 1800  # seconds without a request after which it sleeps
    limits: RequestLimits = RequestLimits()
    users: tuple[str, ...] = ()  # who may use it, beside the owner
    groups: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()  # whose members may; those of ``project`` always may
    everyone: bool = False
    shares: dict[str, int] = {}  # of the traffic, by version
    active_at: float = 0.0  # the last request
    problem: str = ""  # why it does not answer, a sentence


class EndpointVersion(Frozen):
    """Version of an endpoint, which never changes but in what became of it."""

    endpoint: Name
    number: int
    created_at: float
    source: dict[str, Any] = {}  # where the model comes from: a run's point, a folder, the catalog
    environment: str
    environment_version: int = 0  # 0: the current one
    digest: str = ""
    command: Command
    health: HealthPath = "/health"
    folder: str = "~"
    paths: tuple[str, ...] = ()  # prefixes of the program that are let through; (): all
    example: dict[str, Any] = {}  # a request that each replica answers before it gets others
    resources: dict[str, Any] = {}  # ``user_options`` of each replica
    failures: int = 0  # replicas in a row that did not answer
    problem: str = ""


class EndpointReplica(Frozen):
    """Replica: a set of one replica with this id, launched once. It has what its job needs of its
    version, so that the Hub reads one row."""

    user: str
    id: str
    endpoint: Name
    project: str = ""  # its endpoint's
    version: int
    environment: str
    environment_version: int = 0
    command: Command
    health: HealthPath = "/health"
    folder: str = "~"
    gateway: str = ""  # the gateway's certificate (PEM), which is public
    successor_of: str = ""
    created_at: float
    job_id: str = ""  # "": not launched yet
    port: int = 0
    certificate: str = ""  # its own (PEM)
    answered_at: float | None = None  # the program's health path
    ready_at: float | None = None  # the example
    draining_at: float | None = None
    ended_at: float | None = None
    waited: float | None = None  # seconds in the queue
    loaded: float | None = None  # seconds from the start of its job to its answer to the example
    overlap: float = 0.0  # seconds for which its successor's job ran too
    told_at: float | None = None  # mail that its successor still waits
