"""The proxy without its word on activity, and with one owner for each host."""

from __future__ import annotations

import os
from typing import Any

from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.user import User
from traitlets import Float

from portal.errors import StartFailed
from portal.launch.course import server_of
from portal.web.cookies import HEADERS

from ..web import hosts
from .proxy_watch import ProxyWatch

_Owner = tuple[str, str]  # a person, and the server where it has a host of its own


class SessionProxy(ConfigurableHTTPProxy):
    """configurable-http-proxy notes when something went to each route last, and JupyterHub takes
    that for activity of the session (jupyterhub.app.JupyterHub.update_last_activity): the polling
    of a forgotten page, of TensorBoard, of a stranger without a token. What counts instead is the
    session's own report (portal_session.activity). Settings: c.ConfigurableHTTPProxy.

    A host is an origin, so it has one owner: the pages of two people on one could read each
    other's. Names make hosts (spawners/web/domains.py); this is the second lock.
    """

    watch_interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between two looks for a proxy that has restarted on its own; its routes are restored
        at once. A look is one small request to the proxy's API.

        Example::

            c.SessionProxy.watch_interval = 5
        """,
    ).tag(config=True)

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._owners: dict[str, dict[str, _Owner]] = {}  # host -> route -> whose it is
        self._watch = ProxyWatch(
            self.api_request, self._restore, lambda: self.hub.host, self.watch_interval, self.log
        )

    async def start(self) -> None:
        """Start the proxy, so that it reads what a browser can send: with more than 16 KiB of
        cookies Node answers 431 without a word, and the Hub cannot delete them."""
        site = os.environ.get("NODE_OPTIONS", "")
        if "--max-http-header-size" not in site:
            os.environ["NODE_OPTIONS"] = f"{site} --max-http-header-size={HEADERS}".strip()
        try:
            await super().start()
        finally:
            if site:
                os.environ["NODE_OPTIONS"] = site
            else:
                os.environ.pop("NODE_OPTIONS", None)

    async def check_routes(self, user_dict: Any, service_dict: Any, routes: Any = None) -> None:
        """Bring the proxy's routes up to date, and watch for a new proxy from then on."""
        await self._watch.start()
        await super().check_routes(user_dict, service_dict, routes)

    async def _restore(self) -> None:
        await self.check_routes(self.app.users, self.app._service_map)

    async def get_all_routes(self) -> dict[str, Any]:
        """Return the routes as JupyterHub wants them; sessions' without ``last_activity``."""
        routes = await super().get_all_routes()
        self._owners = {}
        for spec, route in routes.items():
            if "user" in route["data"]:
                route["data"].pop("last_activity", None)
                self._note(spec, route["data"])
        return dict(routes)

    async def add_route(self, routespec: str, target: str, data: Any) -> None:
        """Add a route, where its host is nobody else's.

        Raises StartFailed, which ends the start of the session that would share a host.
        """
        host, mine = routespec.partition("/")[0], _owner(data or {})
        if host and mine:
            owners = set(self._owners.get(host, {}).values()) - {mine}
            if owners:
                self.log.error("%s belongs to %s: no route there for %s", host, owners, mine)
                raise StartFailed(
                    f"The address of this session, {host}, belongs to another one. Ask an admin."
                )
            self._note(routespec, data)
        await super().add_route(routespec, target, data)

    async def delete_route(self, routespec: str) -> None:
        """Take a route away; its host is free when it was the last."""
        await super().delete_route(routespec)
        host = routespec.partition("/")[0]
        routes = self._owners.get(host, {})
        routes.pop(routespec, None)
        if not routes:
            self._owners.pop(host, None)

    def _note(self, routespec: str, data: dict[str, Any]) -> None:
        owner, host = _owner(data), routespec.partition("/")[0]
        if owner and host:
            self._owners.setdefault(host, {})[routespec] = owner

    async def delete_user(self, user: User, server_name: str = "") -> None:
        """Take a server's route away. JupyterHub looks for all of them at their owner's host, and
        a course's would lead to a port that another server may have by then."""
        if way := hosts.route(user, server_name):
            await self.delete_route(way)
        else:
            await super().delete_user(user, server_name)


def _owner(data: dict[str, Any]) -> _Owner | None:
    """Return whose a session's route is; None for the Hub's and services'."""
    if "user" not in data:
        return None
    server = data.get("server_name", "")
    return data["user"], server if server_of(server) is not None else ""
