"""Restart of the web service soon after its end, also while the Hub starts.

JupyterHub looks each 30 s whether a managed service still runs, and has no setting for it. A Hub
whose service ends before it has answered once ends too.
"""

from __future__ import annotations

import time
from functools import wraps
from typing import Any

from jupyterhub.app import JupyterHub
from jupyterhub.services.service import Service, _ServiceSpawner

from .patch import Patch, wrap_once

_SOON = 1  # second between two looks at a service
_STABLE = 60.0  # seconds; one that ends sooner is looked at after twice the time
_LATEST = 30  # seconds, JupyterHub's own
_starts: dict[str, tuple[float, int]] = {}  # by service: monotonic time, seconds between two looks


def _looked_at_soon(start: Any) -> Any:
    @wraps(start)
    def start_looked_at_soon(self: _ServiceSpawner) -> Any:
        now, interval = time.monotonic(), _SOON
        began, before = _starts.get(self._service_name, (float("-inf"), 0))
        if now - began < _STABLE:
            interval = min(2 * before, _LATEST)
        _starts[self._service_name] = now, interval
        self.poll_interval = interval
        return start(self)

    return start_looked_at_soon


def _survived(start_service: Any) -> Any:
    @wraps(start_service)
    async def start_service_survived(
        self: JupyterHub, service_name: str, service: Service, ssl_context: Any = None
    ) -> bool:
        ready: bool = await start_service(self, service_name, service, ssl_context)
        # One that ends by itself, as for a wrong setting, still ends the Hub: its log says why.
        status = service.proc.poll() if service.managed and service.proc else 1
        if not ready and (status is None or status < 0):
            self.log.warning("The Hub goes on: service %s may answer later.", service_name)
            return True
        return ready

    return start_service_survived


def apply() -> None:
    """Wrap the start of a service's process, and the Hub's wait for it."""
    wrap_once(_ServiceSpawner, "start", _looked_at_soon, mark="looked_at_soon")
    wrap_once(JupyterHub, "start_service", _survived, mark="survived")


PATCH = Patch(
    name="service-restart",
    changes=(
        "jupyterhub.services.service:_ServiceSpawner.start",
        "jupyterhub.app:JupyterHub.start_service",
    ),
    why="A web service that was killed was back after 17 to 28 s; now its end is seen within a "
    "second. One that ends again and again is started after 1, 2, 4, … 30 s. One that was killed "
    "or slow while the Hub waited for its first answer ended the Hub, and with it every start.",
    upstream="none",
    until="JupyterHub notices the end of a managed service at once, or has a setting for it, and "
    "starts it again while it starts itself.",
    apply=apply,
)
