"""Error of a cluster, the check of a number of workers, and requests to the session's broker."""

from __future__ import annotations

from typing import Any

from ..job_kernels.broker_client import Broker, BrokerError
from ..portal_error import PortalError


class ClusterError(PortalError):
    """Cluster that cannot be made or changed; the text says why."""

    def _render_traceback_(self) -> list[str]:  # called by IPython: the sentence is enough
        return [f"ClusterError: {self}"]


def check_number(workers: Any) -> None:
    """Raise ClusterError unless this can be a number of workers."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ClusterError(
            f"The number of workers must be a whole number from 0 on, not {workers!r}.", 400
        )


def ask(
    broker: Broker, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Send a request about a cluster and return the answer. Raises ClusterError."""
    try:
        return broker.ask(method, path, body)
    except BrokerError as error:
        raise ClusterError(str(error), error.status, error.field) from None
