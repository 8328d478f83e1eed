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
    """Record of a session. Times are Unix seconds, memory MiB; None: unknown or not yet.

    ``id`` is opaque and made by the Hub. ``user`` is the Hub's name, ``account`` the one that the
    job belongs to. ``options`` are the validated ``user_options`` of the launch and never change;
    ``work``: what runs in it
    (portal/launch/kinds); ``space``: the space that it belongs to, "" for its user alone.
    ``partition_automatic``: their partition is one that nobody named, for that launch alone.
    ``time_limit`` is its job's final time limit in seconds, extensions included. ``log_path`` is
    the Hub's own file and never leaves the service.
    """

    id: str
    user: str
    server: str = ""
    account: str = ""
    groups: tuple[str, ...] = ()
    environment: str = ""
    environment_title: str = ""
    options: dict[str, Any] = {}
    partition_automatic: bool = False
    work: str = "jupyterlab"
    space: str = ""
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
    log_path: str = ""
    peak_memory: int | None = None
    exit_code: int | None = None
    time_limit: int | None = None

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
