"""Limit on a person's named servers (``c.JupyterHub.named_server_limit_per_user``): those of
spaces and of kernels are made automatically, and do not count."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

from portal.launch.kinds import reserved_for


class NamedServers:
    """Limit that JupyterHub calls with the handler of a request. ``own``: how many a person may
    have beside those; 0: any number."""

    def __init__(self, own: int) -> None:
        self.own = own

    def __call__(self, handler: Any) -> int:
        """Return the limit for all named servers of the person in the request; 0: no limit."""
        name, server = ([unquote(arg or "") for arg in handler.path_args] + ["", ""])[:2]
        if not self.own or reserved_for(server):
            return 0
        user = handler.find_user(name) if server else None
        return self.limit(user.orm_spawners if user else ())

    def limit(self, servers: Collection[str]) -> int:
        """Return the limit for a person who has ``servers``, by name."""
        return self.own + sum(reserved_for(name) is not None for name in servers)
