"""The proxy without its word on activity."""

from __future__ import annotations

from typing import Any

from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.user import User

from . import hosts


class SessionProxy(ConfigurableHTTPProxy):
    """configurable-http-proxy notes when something went to each route last, and JupyterHub takes
    that for activity of the session (jupyterhub.app.JupyterHub.update_last_activity): the polling
    of a forgotten page, of TensorBoard, of a stranger without a token. What counts instead is the
    session's own report (portal_session.activity). Settings: c.ConfigurableHTTPProxy.
    """

    async def get_all_routes(self) -> dict[str, Any]:
        """As JupyterHub wants them; those of sessions without ``last_activity``."""
        routes = await super().get_all_routes()
        for route in routes.values():
            if "user" in route["data"]:
                route["data"].pop("last_activity", None)
        return dict(routes)

    async def delete_user(self, user: User, server_name: str = "") -> None:
        """Take a server's route away. JupyterHub looks for all of them at their owner's host, and
        a course's would lead to a port that another server may have by then."""
        if way := hosts.route(user, server_name):
            await self.delete_route(way)
        else:
            await super().delete_user(user, server_name)
