"""Ids of sessions' OAuth clients that no two sessions share.

JupyterHub joins user and server with a hyphen, which both may contain: "max-ada" has the client of
max's server "ada". Whoever launches last has it: the other session refuses all logins, and the Hub
takes either for an own session, for which nobody is asked.
"""

from __future__ import annotations

from functools import wraps
from typing import Any
from urllib.parse import quote

from jupyterhub.user import User

from .patch import method_patch


def client_id(user: str, server: str) -> str:
    """Return the id of this server's client: JupyterHub's own, if the user's name has no hyphen."""
    owner = f"jupyterhub-user-{quote(user).replace('-', '%2D')}"
    return f"{owner}-{quote(server)}" if server else owner


def _of_one_server(new_spawner: Any) -> Any:
    @wraps(new_spawner)
    def of_one_server(self: User, server_name: str, spawner_class: Any = None, **more: Any) -> Any:
        row = self.orm_spawners.get(server_name)
        # A session that runs was given its client's id when it started.
        known = row.oauth_client.identifier if row is not None and row.oauth_client else ""
        more.setdefault("oauth_client_id", known or client_id(self.name, server_name))
        return new_spawner(self, server_name, spawner_class, **more)

    return of_one_server


PATCH = method_patch(
    User,
    "_new_spawner",
    _of_one_server,
    mark="of_one_server",
    name="client-ids",
    why="Security: a user whose name is the beginning of another's could, with a named server, "
    "keep that user out of their session, and learn who they are without the Hub's question.",
    upstream="none",
    until="JupyterHub's ids of clients differ for all pairs of a user and a server.",
)
