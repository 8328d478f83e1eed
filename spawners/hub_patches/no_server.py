"""Sessions without a server are ready when they have started: nothing answers at their address.

A kernel in a job of its own opens no port (portal/work/kernel/kind.py). JupyterHub waits for
an HTTP response of each server after its start and after a restart of the Hub, and stops those that
do not respond.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from jupyterhub.user import User

from .patch import method_patch


def _without_server(wait_up: Any) -> Any:
    @wraps(wait_up)
    async def up(self: User, spawner: Any) -> Any:
        if getattr(spawner, "serves", True):
            return await wait_up(self, spawner)
        spawner._waiting_for_response = spawner._start_pending = False
        return spawner

    return up


PATCH = method_patch(
    User,
    "_wait_up",
    _without_server,
    mark="without_server",
    name="no-server",
    why="Correctness: JupyterHub stops a session that has no server. The service could answer in "
    "its place, but a restarted Hub starts that only after this wait, which would hold up each "
    "restart for ten seconds (c.JupyterHub.init_spawners_timeout); and a service that is away "
    "would end kernels that run.",
    upstream="none",
    until="JupyterHub can run sessions without a server.",
)
