"""Id of a browser's session, in a cookie that no other host can set.

JupyterHub keeps it in a cookie for the Hub's host and all below, so that sessions' servers read it
too; their pages may set it as well. Where logins have the prefix ``__Host-``, the Hub trusts a
second cookie with that prefix; sessions go on reading the first.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from jupyterhub.handlers.base import BaseHandler

from portal.web.tossed import PREFIX, SESSION

from .patch import Patch

_HOST_SESSION = PREFIX + SESSION


def _prefixed(handler: Any) -> bool:
    return str(handler.hub.cookie_name).startswith(PREFIX)


def apply() -> None:
    """Make the Hub's handlers read, write and clear that cookie."""
    if hasattr(BaseHandler.get_session_cookie, "of_host"):
        return
    read, write, clear = (
        BaseHandler.get_session_cookie,
        BaseHandler.set_session_cookie,
        BaseHandler.clear_login_cookie,
    )

    @wraps(read)
    def get_session_cookie(self: Any) -> str | None:
        if not _prefixed(self) or hasattr(self, "_session_id"):
            session = read(self)
        else:
            session = self.get_cookie(_HOST_SESSION, None)
        return None if session is None else str(session)

    @wraps(write)
    def set_session_cookie(self: Any) -> str:
        session = str(write(self))
        if _prefixed(self):
            self._set_cookie(_HOST_SESSION, session, encrypted=False)
        return session

    @wraps(clear)
    def clear_login_cookie(self: Any, name: str | None = None) -> None:
        clear(self, name)
        if _prefixed(self):
            self.clear_cookie(_HOST_SESSION)

    get_session_cookie.of_host = True  # type: ignore[attr-defined]
    BaseHandler.get_session_cookie = get_session_cookie
    BaseHandler.set_session_cookie = set_session_cookie
    BaseHandler.clear_login_cookie = clear_login_cookie


PATCH = Patch(
    name="session-cookie",
    changes=(
        "jupyterhub.handlers.base:BaseHandler.get_session_cookie",
        "jupyterhub.handlers.base:BaseHandler.set_session_cookie",
        "jupyterhub.handlers.base:BaseHandler.clear_login_cookie",
    ),
    why=(
        "Security: a page on a host below the Hub's can set jupyterhub-session-id, from which "
        "JupyterHub derives _xsrf, so that every action of its visitors is refused."
    ),
    upstream="https://github.com/jupyterhub/jupyterhub/issues/4674 (the prefix, for logins only)",
    until="c.JupyterHub.cookie_host_prefix_enabled also covers the id of the browser's session.",
    apply=apply,
)
