"""Protection from cookie tossing: of several cookies with one name, the host's own counts.

A page on a subdomain of the Hub's host may set cookies for the Hub's host and for any path there.
With HTTPS, logins are safe from that by their names (``__Host-``: cookie_host_prefix_enabled). But
JupyterHub 6 takes the first ``_xsrf`` that it has signed, for whomever, and the id of the
browser's session from a cookie without such a name. A page that sets either has every action of
its visitors refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub import _xsrf_utils
from jupyterhub.services.auth import HubOAuth

PREFIX = "__Host-"
SESSION = "jupyterhub-session-id"  # jupyterhub.handlers.base.SESSION_COOKIE_NAME

_Chosen = tuple[bytes | None, bytes | None]


def own_xsrf(handler: Any) -> _Chosen:
    """Return this login's ``_xsrf`` cookie and its signed value; without one, the first signed.

    Replaces jupyterhub._xsrf_utils._get_xsrf_token_cookie (6.1.1).
    """
    first: _Chosen = (None, None)
    for cookie in handler.request.headers.get("Cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        token = value.strip('" ').encode("ascii", "replace")
        if name != "_xsrf" or not token:
            continue
        signed_value = _xsrf_utils._get_signed_value_urlsafe(handler, "_xsrf", token)
        if signed_value and signed_value == handler._xsrf_token_id:
            return token, signed_value
        if signed_value and first[0] is None:
            first = token, signed_value
    return first


def protect() -> None:
    """Make JupyterHub choose cookies that way, in this process."""
    _xsrf_utils._get_xsrf_token_cookie = own_xsrf


def protect_service() -> None:
    """Protect a service too: read its session id from a cookie that no other host can set."""
    protect()
    HubOAuth.get_session_id = _of_host(HubOAuth.get_session_id)


def _of_host(get_session_id: Callable[..., Any]) -> Callable[..., Any]:
    def own_session(self: Any, handler: Any) -> str:
        if self.cookie_host_prefix_enabled:
            return str(handler.get_cookie(PREFIX + SESSION, ""))
        return str(get_session_id(self, handler))

    return own_session
