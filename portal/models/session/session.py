"""Records of sessions: user, environment, resources, times, and why they ended."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from .. import Frozen


class SessionState(StrEnum):
    """State of a session."""

    PENDING = "pending"  # its job waits
    STARTING = "starting"  # its job runs, its server does not answer yet
    RUNNING = "running"
    ENDED = "ended"


class SessionRecord(Frozen):
    """Record of a session. Times are Unix seconds, memory MiB; None: unknown or not yet."""

    id: str  # opaque, made by the Hub
    user: str  # the Hub's name
    server: str = ""
    account: str = ""  # the one that the job belongs to
    groups: tuple[str, ...] = ()
    environment: str = ""
    environment_title: str = ""
    options: dict[str, Any] = {}  # the validated ``user_options`` of the launch, which never change
    # Their partition is one that nobody named, for that launch alone.
    partition_automatic: bool = False
    work: str = "jupyterlab"  # what runs in it (portal/launch/kinds)
    space: str = ""  # the space that it belongs to, "" for its user alone
    job_id: str = ""
    state: SessionState = SessionState.PENDING
    submitted_at: float
    started_at: float | None = None
    ready_at: float | None = None
    ended_at: float | None = None
    nodes: tuple[str, ...] = ()
    ending_code: str = ""  # portal.sessions.ending
    ending_message: str = ""
    stopped_by: str = ""  # name of the user who requested the stop; "": nobody did
    log: str = ""  # the log's tail as clean text, once the session is over
    log_path: str = ""  # the Hub's own file, never leaves the service
    peak_memory: int | None = None
    exit_code: int | None = None
    time_limit: int | None = None  # its job's final time limit in seconds, extensions included

    @property
    def again(self) -> dict[str, Any]:
        """The ``user_options`` that ask for the same session again."""
        options = options_again(self.options, self.partition_automatic)
        options.pop("environment", None)
        return {"environment": self.environment, **options}


def options_again(options: Mapping[str, Any], partition_automatic: bool) -> dict[str, Any]:
    """Return the options of a launch for the next one: without a partition that nobody named, since
    its choice depends on what was free, and in order, then."""
    dropped = ("partition",) if partition_automatic else ()
    return {key: value for key, value in options.items() if key not in dropped}
