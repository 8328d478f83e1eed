"""No "Authorize" page for a session of another user that was opened on the portal's own page."""

from __future__ import annotations

from functools import wraps
from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers.auth import OAuthAuthorizeHandler
from jupyterhub.scopes import access_scopes, identify_scopes

from ..context import HubContext
from .patch import method_patch


def _unless_entered(needs_oauth_confirm: Any) -> Any:
    @wraps(needs_oauth_confirm)
    def needs_confirm(self: Any, user: Any, client: orm.OAuthClient, scopes: set[str]) -> bool:
        """Return False also for the session that this user has just opened on the portal's page."""
        if not needs_oauth_confirm(self, user, client, scopes):
            return False
        spawner = client.spawner
        # Anything beyond who they are and the session itself, which a site may allow, is asked.
        if spawner is None or not set(scopes) <= identify_scopes() | access_scopes(client):
            return True
        entries = HubContext.instance(self.config).entries
        return not entries.use(user.name, spawner.user.name, spawner.name)

    return needs_confirm


PATCH = method_patch(
    OAuthAuthorizeHandler,
    "needs_oauth_confirm",
    _unless_entered,
    mark="of_entries",
    name="entry-confirm",
    why="JupyterHub asks on a page of its own whether another user's session may learn who comes, "
    "even if they have just chosen that session on the portal's page in the middle of a class.",
    upstream="none",
    until="JupyterHub lets a service answer that question for one user and one server.",
)
