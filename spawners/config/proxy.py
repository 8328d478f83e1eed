"""Proxy whose traffic does not count as activity, and with one owner for each host."""

from __future__ import annotations

import os
from typing import Any

from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.user import User
from traitlets import Bunch, Float, validate

from portal.errors import StartFailed
from portal.web.cookies import HEADERS

from ..web import hosts
from .proxy_watch import ProxyWatch

_Owner = tuple[str, str]  # a person, and the server where it has a host of its own


class SessionProxy(ConfigurableHTTPProxy):
    """configurable-http-proxy whose traffic does not count as activity of sessions, and with one
    owner for each host. Settings: c.ConfigurableHTTPProxy.

    The proxy notes the last traffic of each route, and JupyterHub takes that for activity of the
    session (jupyterhub.app.JupyterHub.update_last_activity): the polling of a forgotten page, of
    TensorBoard, of a stranger without a token. The session's own report counts instead
    (portal_session.activity).

    A host is an origin, so it has one owner: the pages of two people on the same host could read
    each other's. Hosts are made from names (spawners/web/domains.py); this is a second check.
    """

    # Seconds between checks (one small request) for a proxy that restarted on its own.
    watch_interval = Float(2.0)

    @validate("extra_routes")
    def _validate_extra_routes(self, proposal: Bunch) -> dict[str, str]:
        """Put the Hub's host before routes that name none, where sessions have subdomains: a route
        must have one there, and none elsewhere (jupyterhub.proxy.Proxy.extra_routes)."""
        host = self.app.domain if self.app.subdomain_host else ""
        proposal["value"] = {
            f"{host}{route}" if route.startswith("/") else route: target
            for route, target in proposal["value"].items()
        }
        return dict(super()._validate_extra_routes(proposal))

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._owners: dict[str, dict[str, _Owner]] = {}  # host -> route -> owner
        self._watch = ProxyWatch(
            self.api_request, self._restore, lambda: self.hub.host, self.watch_interval, self.log
        )

    async def start(self) -> None:
        """Start the proxy with a header limit that fits what a browser can send: with more than
        16 KiB of cookies Node answers a bare 431, and the Hub cannot delete them."""
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
        """Update the proxy's routes, and watch for a new proxy from then on."""
        await self._watch.start()
        await super().check_routes(user_dict, service_dict, routes)

    async def _restore(self) -> None:
        await self.check_routes(self.app.users, self.app._service_map)

    async def get_all_routes(self) -> dict[str, Any]:
        """Return the routes as JupyterHub expects them; sessions' without ``last_activity``."""
        routes = await super().get_all_routes()
        self._owners = {}
        for spec, route in routes.items():
            if "user" in route["data"]:
                route["data"].pop("last_activity", None)
                self._note(spec, route["data"])
        return dict(routes)

    async def add_route(self, routespec: str, target: str, data: Any) -> None:
        """Add a route, unless its host belongs to somebody else. A session's is added later if the
        proxy is away for half a minute: JupyterHub would end the session, with its job.

        Raises StartFailed, which ends the start of the session that would share a host.
        """
        host, owner = routespec.partition("/")[0], _owner(data or {})
        if host and owner:
            owners = set(self._owners.get(host, {}).values()) - {owner}
            if owners:
                self.log.error("%s belongs to %s: no route there for %s", host, owners, owner)
                raise StartFailed(
                    f"The address of this session, {host}, belongs to another session. Ask an "
                    "admin."
                )
            self._note(routespec, data)
        try:
            await super().add_route(routespec, target, data)
        except TimeoutError:
            if not owner:
                raise
            self._note_away(routespec)

    async def delete_route(self, routespec: str) -> None:
        """Delete a route; its host is free after the last one. It is deleted later if the proxy is
        away for half a minute: JupyterHub would not stop the session, nor notice its end."""
        try:
            await super().delete_route(routespec)
        except TimeoutError:
            self._note_away(routespec)
            return
        host = routespec.partition("/")[0]
        routes = self._owners.get(host, {})
        routes.pop(routespec, None)
        if not routes:
            self._owners.pop(host, None)

    def _note_away(self, routespec: str) -> None:
        self.log.warning("The proxy is away: the route %s is put right when it is back", routespec)
        self._watch.note_wrong()

    def _note(self, routespec: str, data: dict[str, Any]) -> None:
        owner, host = _owner(data), routespec.partition("/")[0]
        if owner and host:
            self._owners.setdefault(host, {})[routespec] = owner

    async def delete_user(self, user: User, server_name: str = "") -> None:
        """Delete a server's route. JupyterHub looks for all of them at their owner's host, so that
        a space's would stay and lead to a port that another server may have by then."""
        if spec := hosts.route(user, server_name):
            await self.delete_route(spec)
        else:
            await super().delete_user(user, server_name)


def _owner(data: dict[str, Any]) -> _Owner | None:
    """Return the owner of a session's route; None for the Hub's and services'."""
    if "user" not in data:
        return None
    server = data.get("server_name", "")
    return data["user"], server if hosts.has_own(server) else ""
