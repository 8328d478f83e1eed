"""Protection from cookies that a page of another session has set for this one.

A page on a sibling host may set cookies for the parent domain, and for any path there. JupyterLab
sends the first ``_xsrf`` that it sees, and JupyterHub compares that with the first one that the
session has signed: a page that sets another has every action refused, for as long as the cookie
lasts. So of several, the one of this login counts here; and where sessions have hosts of their
own, the browser's word that a request comes from this very host (Sec-Fetch-Site, which no page can
write) stands in for the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

_Chosen = tuple[Optional[bytes], Optional[bytes]]


def apart(environ: Mapping[str, str]) -> bool:
    """Return True if this session has another host than the Hub, and so than others' sessions."""
    hub = urlsplit(environ.get("JUPYTERHUB_HOST", "")).hostname
    own = urlsplit(environ.get("JUPYTERHUB_PUBLIC_URL", "")).hostname
    return bool(hub and own and hub != own)


def protect(environ: Mapping[str, str]) -> None:
    """Change JupyterHub's checks in this process (6.1.1 has no setting for it)."""
    from jupyterhub import _xsrf_utils
    from jupyterhub.services.auth import HubOAuth

    signed = _xsrf_utils._get_signed_value_urlsafe

    def own_xsrf(handler: Any) -> _Chosen:
        """Return the token of this login and its value; else the first that is signed."""
        first: _Chosen = (None, None)
        for cookie in handler.request.headers.get("Cookie", "").split(";"):
            name, _, value = cookie.strip().partition("=")
            token = value.strip('" ').encode("ascii", "replace")
            if name != "_xsrf" or not token:
                continue
            signed_value = signed(handler, "_xsrf", token)
            if signed_value and signed_value == handler._xsrf_token_id:
                return token, signed_value
            if signed_value and first[0] is None:
                first = token, signed_value
        return first

    _xsrf_utils._get_xsrf_token_cookie = own_xsrf
    if not apart(environ):
        return  # all sessions share one host, so same-origin proves nothing
    checked = HubOAuth.check_xsrf_cookie

    def check_xsrf_cookie(self: Any, handler: Any) -> None:
        if handler.request.headers.get_list("Sec-Fetch-Site") != ["same-origin"]:
            checked(self, handler)

    HubOAuth.check_xsrf_cookie = check_xsrf_cookie
