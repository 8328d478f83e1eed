"""Single hash of a session's OAuth secret, as of its token.

The secret is the session's token, which JupyterHub made at random a moment before (122 bits), so
it cannot be guessed, and JupyterHub itself hashes it once as a token (jupyterhub/orm.py,
APIToken.generated). As an OAuth client's secret it is treated like a password and hashed 16384
times, on the event loop: 4 ms for each launch and each login to a session.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from jupyterhub.oauth.provider import JupyterHubOAuthServer
from jupyterhub.utils import hash_token

from .patch import method_patch

_SESSIONS = "jupyterhub-user-"  # Spawner.oauth_client_id; others' secrets may be a person's choice


def _hashed_once(add_client: Any) -> Any:
    @wraps(add_client)
    def add_client_hashed_once(
        self: JupyterHubOAuthServer, client_id: str, client_secret: str, *args: Any, **more: Any
    ) -> Any:
        if not client_id.startswith(_SESSIONS) or not client_secret:
            return add_client(self, client_id, client_secret, *args, **more)
        client = add_client(self, client_id, "", *args, **more)
        client.secret = hash_token(client_secret, rounds=1)
        self.db.commit()
        return client

    return add_client_hashed_once


PATCH = method_patch(
    JupyterHubOAuthServer,
    "add_client",
    _hashed_once,
    mark="hashed_once",
    name="oauth-secret",
    why="The slow hash takes 1.4 ms of the event loop (4 ms on a slower machine) for each launch "
    "and each login to a session, a twentieth of what a launch costs it; hashed once, it takes 3 "
    "microseconds.",
    upstream="https://github.com/jupyterhub/jupyterhub/pull/1258 (the same, for tokens)",
    until="JupyterHub hashes generated secrets of OAuth clients once, as it does tokens.",
)
