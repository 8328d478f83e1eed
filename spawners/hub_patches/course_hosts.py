"""Use of the hosts of courses' sessions (``spawners.web.hosts``) in JupyterHub."""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import Any

from jupyterhub.handlers.base import UserUrlHandler
from jupyterhub.user import User

from ..web.hosts import address, origin
from .patch import Patch, wrap_once


def _address_of(of_user: Any) -> Any:
    @wraps(of_user)
    def server_url(self: User, server_name: str = "") -> str:
        return address(self, server_name) or str(of_user(self, server_name))

    return server_url


def _sent(of_handler: Any) -> Any:
    @wraps(of_handler)
    async def redirect(self: Any, user: User, spawner: Any) -> None:
        """Redirect /hub/user/NAME/SERVER/… to the server; only ``host`` of the user is read."""
        at = origin(user, spawner.name)
        await of_handler(self, SimpleNamespace(host=at) if at else user, spawner)

    return redirect


def apply() -> None:
    """Patch the results for courses' servers, and no others."""
    wrap_once(User, "server_url", _address_of, mark="of_courses")
    wrap_once(UserUrlHandler, "_redirect_to_user_server", _sent, mark="of_courses")


PATCH = Patch(
    name="course-hosts",
    changes=(
        "jupyterhub.user:User.server_url",
        "jupyterhub.handlers.base:UserUrlHandler._redirect_to_user_server",
    ),
    why=(
        "Security: JupyterHub has one host for all servers of a user. A course session runs "
        "code that others wrote, which could reach the user's other sessions on the same host."
    ),
    upstream="https://github.com/jupyterhub/jupyterhub/issues/3459",
    until="c.JupyterHub.subdomain_hook also gets the server's name.",
    apply=apply,
)
