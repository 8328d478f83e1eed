"""Hosts of spaces' sessions, where sessions have hosts at all (c.JupyterHub.subdomain_host).

A space's session runs what others wrote: handouts, and in its room what any member types. A
helper is let into it, too. On its owner's host that would reach the owner's other sessions:
browsers send a host's cookies along, and its pages may read each other. JupyterHub has one host
for all servers of a person; a patch of the Hub changes that for spaces' servers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from jupyterhub.spawner import Spawner
from jupyterhub.user import User
from jupyterhub.utils import url_escape_path, url_path_join

from portal.launch.kinds import reserved_for

from .domains import host_of_server

_CALLBACK = "JUPYTERHUB_OAUTH_CALLBACK_URL"


def has_own(server: str) -> bool:
    """Return True if a server is a space's, and so not at its user's host."""
    address = reserved_for(server)
    return address is not None and bool(address.space)


def host_name(user: User, server: str) -> str:
    """Return the host, without a port, of this server if it is a space's; "" for all others."""
    if not has_own(server) or not user.settings.get("subdomain_host"):
        return ""
    hook, domain = user.settings["subdomain_hook"], user.settings["domain"]
    return host_of_server(user.name, server, domain, hook)


def origin(user: User, server: str) -> str:
    """Return the scheme, host and port of this server if it is a space's; "" for all others."""
    host = host_name(user, server)
    if not host:
        return ""
    hub = urlsplit(user.settings["subdomain_host"])
    return f"{hub.scheme}://{host}" + (f":{hub.port}" if hub.port else "")


def address(user: User, server: str) -> str:
    """Return the full URL of this server if it is a space's; "" for all others."""
    at = origin(user, server)
    return at and at + url_path_join("/", user.base_url, url_escape_path(server), "/")


def route(user: User, server: str) -> str:
    """Return the proxy's route to this server if it is a space's; "" for all others."""
    host = host_name(user, server)
    return host and host + url_path_join("/", user.base_url, url_escape_path(server), "/")


def move_away(spawner: Spawner) -> None:
    """Set the proxy's route of a new spawner, if it is a space's."""
    if spawner.user is not None and (spec := route(spawner.user, spawner.name)):
        spawner.proxy_spec = spec


def with_callback(spawner: Spawner, env: dict[str, str]) -> dict[str, str]:
    """Return the session's variables, with the callback URL of its logins."""
    if url := address(spawner.user, spawner.name):
        env[_CALLBACK] = url_path_join(url, "oauth_callback")
    return env


def tell_logins(spawner: Spawner) -> None:
    """Let the Hub send the session's logins back to its host. Call it before the server starts."""
    client, url = spawner.orm_spawner.oauth_client, address(spawner.user, spawner.name)
    if client is not None and url:
        client.redirect_uri = url_path_join(url, "oauth_callback")
        spawner.user.db.commit()
