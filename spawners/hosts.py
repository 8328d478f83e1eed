"""A course's room has a host of its own, where sessions have hosts (c.JupyterHub.subdomain_host).

In a room all members of a course write what runs in everybody's browser, its owner's included. On
the owner's host it would reach the owner's other sessions: browsers send that host's cookies along,
and its pages may read each other. JupyterHub has one host for all servers of a person and asks its
``User`` where one is, so that answer is changed here, for rooms only.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jupyterhub.user import User
from jupyterhub.utils import url_escape_path, url_path_join

from portal.launch.course import CourseKind, server_of

if TYPE_CHECKING:
    from .slurm import PortalSpawner

_CALLBACK = "JUPYTERHUB_OAUTH_CALLBACK_URL"


def room_host(user: User, server: str) -> str:
    """The host, without a port, of this server when it is a room; "" for all others."""
    named = server_of(server)
    if (
        named is None
        or named.kind is not CourseKind.ROOM
        or not user.settings.get("subdomain_host")
    ):
        return ""
    # No login has a space in it: this is nobody's host.
    label = f"{server} {user.name}"
    return str(user.settings["subdomain_hook"](label, user.settings["domain"], kind="user"))


def room_url(user: User, server: str) -> str:
    """The whole address of this server when it is a room; "" for all others."""
    host = room_host(user, server)
    if not host:
        return ""
    hub = urlsplit(user.settings["subdomain_host"])
    port = f":{hub.port}" if hub.port else ""
    path = url_path_join("/", user.base_url, url_escape_path(server), "/")
    return f"{hub.scheme}://{host}{port}{path}"


def move_away(spawner: PortalSpawner) -> None:
    """The proxy's route of a new spawner, where it is a room's."""
    if spawner.user is not None and (host := room_host(spawner.user, spawner.name)):
        path = url_path_join("/", spawner.user.base_url, url_escape_path(spawner.name), "/")
        spawner.proxy_spec = f"{host}{path}"


def with_callback(spawner: PortalSpawner, env: dict[str, str]) -> dict[str, str]:
    """The session's variables, with where its logins come back to."""
    if url := room_url(spawner.user, spawner.name):
        env[_CALLBACK] = url_path_join(url, "oauth_callback")
    return env


def tell_logins(spawner: PortalSpawner) -> None:
    """Let the Hub send a room's logins back to its host. Before the server starts."""
    client, url = spawner.orm_spawner.oauth_client, room_url(spawner.user, spawner.name)
    if client is not None and url:
        client.redirect_uri = url_path_join(url, "oauth_callback")
        spawner.user.db.commit()


def _changed(of_user: Any) -> Any:
    @wraps(of_user)
    def server_url(self: User, server_name: str = "") -> str:
        return room_url(self, server_name) or str(of_user(self, server_name))

    server_url.of_rooms = True  # type: ignore[attr-defined]
    return server_url


if not hasattr(User.server_url, "of_rooms"):
    User.server_url = _changed(User.server_url)
