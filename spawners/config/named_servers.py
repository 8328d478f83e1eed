"""How many named servers a person may have: those of courses come by themselves, and do not count
(``c.JupyterHub.named_server_limit_per_user``)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

from portal.launch.course import server_of


class NamedServers:
    """The limit as JupyterHub asks for it: called with the handler of a request. ``own``: how many
    a person may have beside those of courses; 0: any number."""

    def __init__(self, own: int) -> None:
        self.own = own

    def __call__(self, handler: Any) -> int:
        """JupyterHub counts all named servers of whom the request is about; 0: it counts none."""
        name, server = ([unquote(one or "") for one in handler.path_args] + ["", ""])[:2]
        if not self.own or server_of(server):
            return 0
        user = handler.find_user(name) if server else None
        return self.limit(user.orm_spawners if user else ())

    def limit(self, servers: Collection[str]) -> int:
        """For somebody who has ``servers``, by name."""
        return self.own + sum(server_of(name) is not None for name in servers)
